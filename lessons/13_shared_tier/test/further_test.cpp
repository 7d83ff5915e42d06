// The text's further task, once it is begun: SharedTierOptions::ask_every.

#include <chrono>
#include <thread>

#include "common/todo.h"
#include "servers.h"

using namespace lesson13_test;
using lesson13::BlockName;
using lesson13::BlockStore;

namespace {

template <class Options>
Options options_of(int ask_every) {
  Options options = always();
  options.policy = LoadPolicy::kQuicker;
  if constexpr (requires { options.ask_every = ask_every; }) {
    options.ask_every = ask_every;
  } else {
    KV_TODO("give SharedTierOptions a member ask_every");
  }
  return options;
}

/// A store that takes its time for the next `slow` fetches.
class SlowStore final : public BlockStore {
 public:
  explicit SlowStore(int slow) : slow_(slow) {}
  std::optional<size_t> find(std::span<const BlockName> names) override {
    return values_.find(names);
  }
  void get(std::span<const BlockName> names, const OnValue& on_value) override {
    if (slow_-- > 0) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    values_.get(names, on_value);
  }
  bool put(const BlockName& name, std::string_view value) override {
    return values_.put(name, value);
  }

 private:
  MemoryStore values_;
  int slow_;
};

/// Serves a text of three full blocks a number of times, on a server that forgets it each time.
/// Returns for each request whether the store was asked.
std::vector<bool> serve(BlockStore& store, int ask_every, int num_requests) {
  const auto options = options_of<lesson13::SharedTierOptions>(ask_every);
  lesson13::Server server(kvtest::shipped_model(), {.num_blocks = 40}, {}, options, store);
  std::vector<bool> asked;
  int64_t before = 0;
  for (int i = 0; i < num_requests; ++i) {
    server.reset_prefix_cache();
    server.step();  // which forgets
    server.submit(i, kvtest::request_of(50, 3));
    while (!server.idle()) server.step();
    server.settle();
    const int64_t now = server.tier().metrics().num_queried;
    asked.push_back(now > std::exchange(before, now));
  }
  return asked;
}

}  // namespace

TEST_CASE("a store that stays slow is asked by one request in ask_every") {
  SlowStore store(1000);
  const auto asked = serve(store, 3, 11);
  CHECK(asked ==
        std::vector<bool>{true, true, false, false, true, false, false, true, false, false, true});
}

TEST_CASE("a store that has become fast is asked by all again") {
  SlowStore store(1);
  const auto asked = serve(store, 2, 90);
  CHECK_FALSE(asked[2]);
  for (size_t i = 80; i < 90; ++i) CHECK(asked[i]);
}

TEST_CASE("without ask_every a store that was slow is never asked again") {
  SlowStore store(1);
  const auto asked = serve(store, 0, 8);
  CHECK(asked == std::vector<bool>{true, true, false, false, false, false, false, false});
}
