#include "instruments/serve/store.h"

#include <fmt/format.h>

#include <cstdio>

#include "common/url.h"
#include "common/utf8.h"
#include "lessons/13_shared_tier/cli/memory_store.h"
#include "lessons/13_shared_tier/cli/redis_store.h"

namespace serve {

std::shared_ptr<lesson13::BlockStore> open_store(const std::string& name) {
  if (name == "memory") return std::make_shared<lesson13::MemoryStore>(size_t{1} << 30);  // bytes
  std::shared_ptr<lesson13::BlockStore> store =
      lesson13::make_redis_store(lesson13::parse_redis_address(name));
  const lesson13::BlockName any = lesson13::root_name(0);
  if (!store->find({&any, 1})) {
    const std::string warning = fmt::format(
        "warning: the store {} does not answer, or wants another password; until it does, nothing "
        "is shared",
        kv::without_password(name));
    fmt::print(stderr, "{}\n", kv::one_line(warning));
  }
  return store;
}

lesson11::LoadPolicy load_policy_of(const std::string& name) {
  return name == "always"  ? lesson11::LoadPolicy::kAlways
         : name == "never" ? lesson11::LoadPolicy::kNever
                           : lesson11::LoadPolicy::kQuicker;
}

}  // namespace serve
