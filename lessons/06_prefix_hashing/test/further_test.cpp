// Tests of the text's task "Whose prefix?": each is skipped until a lookup knows its tenant.

#include <doctest/doctest.h>

#include <type_traits>

#include "cli/hashers.h"
#include "common/todo.h"
#include "kv_cache_manager.h"
#include "requests.h"
#include "tests/support/readable.h"

namespace {

using lesson06::BlockPool;
using namespace lesson06_test;

constexpr const char* kTask = "give BlockHashes a tenant";

template <class Hashes>
constexpr bool kKnowsTenants = std::is_constructible_v<Hashes, ExtraKeys, int32_t>;

/// Tokens that the tenant finds.
template <class Hashes>
int found_by(const KvCacheManager& manager, int32_t tenant, const Tokens& tokens) {
  Hashes hashes(ExtraKeys{}, tenant);
  return manager.get_computed_blocks(tokens, hashes).num_tokens;
}

template <class Hashes>
void run_for(KvCacheManager& manager, int64_t id, int32_t tenant, const Tokens& tokens) {
  Hashes hashes(ExtraKeys{}, tenant);
  const auto computed = manager.get_computed_blocks(tokens, hashes);
  const int rest = static_cast<int>(tokens.size()) - computed.num_tokens;
  REQUIRE(manager.allocate_slots(id, rest, computed));
  manager.cache_blocks(id, tokens, hashes, static_cast<int>(tokens.size()));
  manager.check();
}

template <class Hashes>
void check_two_tenants(int bits) {
  if constexpr (kKnowsTenants<Hashes>) {
    BlockPool pool(16, 4);
    KvCacheManager manager(pool, {.hasher = lesson06::narrow_hasher(bits)});
    const Tokens tokens = range(0, 9);
    run_for<Hashes>(manager, 1, 1, tokens);
    CHECK(found_by<Hashes>(manager, 1, tokens) == 8);
    CHECK(found_by<Hashes>(manager, 2, tokens) == 0);
    CHECK(found_by<Hashes>(manager, 0, tokens) == 0);
    run_for<Hashes>(manager, 2, 2, tokens);
    CHECK(found_by<Hashes>(manager, 2, tokens) == 8);
    CHECK(table_of(manager, 1)[0] != table_of(manager, 2)[0]);
    run_for<Hashes>(manager, 3, 2, tokens);
    CHECK(table_of(manager, 3)[1] == table_of(manager, 2)[1]);
  } else {
    KV_TODO(kTask);
  }
}

template <class Hashes>
void check_nobody() {
  if constexpr (kKnowsTenants<Hashes>) {
    BlockPool pool(16, 4);
    KvCacheManager manager(pool);
    run(manager, 1, range(0, 9));
    CHECK(found_by<Hashes>(manager, 0, range(0, 9)) == 8);
    CHECK(pool.index().block(table_of(manager, 1)[1])->hash ==
          lesson06::hash_chain(range(0, 8), 4, {})[1]);
  } else {
    KV_TODO(kTask);
  }
}

template <class Hashes>
void check_imitation() {
  if constexpr (kKnowsTenants<Hashes>) {
    for (const int bits : {64, 0}) {
      CAPTURE(bits);
      BlockPool pool(16, 4);
      KvCacheManager manager(pool, {.hasher = lesson06::narrow_hasher(bits)});
      run_for<Hashes>(manager, 1, 7, Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9});
      for (const int32_t tenant : {0, 1, 2}) {
        CAPTURE(tenant);
        CHECK(found_by<Hashes>(manager, tenant, {7, 1, 2, 3, 4, 5, 6, 7, 8, 9}) == 0);
        CHECK(found_by<Hashes>(manager, tenant, {7, 0, 1, 2, 3, 4, 5, 6, 7, 8}) == 0);
        CHECK(found_by<Hashes>(manager, tenant, {0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8, 9}) == 0);
        CHECK(found_by<Hashes>(manager, tenant, {5, 6, 7, 8, 9}) == 0);
      }
    }
  } else {
    KV_TODO(kTask);
  }
}

}  // namespace

TEST_CASE("a tenant finds its own prompts and no other's") { check_two_tenants<BlockHashes>(64); }

TEST_CASE("two tenants stay apart when all hashes are equal") { check_two_tenants<BlockHashes>(0); }

TEST_CASE("a prompt of tenant 0 has the name that it always had") { check_nobody<BlockHashes>(); }

TEST_CASE("no token imitates a tenant") { check_imitation<BlockHashes>(); }
