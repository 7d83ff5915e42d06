// The event log: its bytes alone tell what is in the pool.

#include "instruments/serve/event_log.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "instruments/watch/event_mirror.h"
#include "lessons/06_prefix_hashing/test/requests.h"
#include "lessons/07_lru_eviction/block_pool.h"

namespace {

using namespace watch;
using lesson06::KvCacheManager;
using lesson06_test::Tokens;
using lesson06_test::write;
using lesson07::BlockPool;

/// By hash: copies, tokens, the parent's hash.
using Standing = std::map<std::string, std::tuple<int, Tokens, std::optional<std::string>>>;

Standing standing(const BlockPool& pool) {
  std::map<lesson06::PrefixId, std::string> hash_of_prefix;
  for (int32_t id = 1; id <= pool.num_blocks(); ++id) {
    if (const auto* block = pool.index().block(id)) {
      hash_of_prefix[block->prefix] = hash_of(block->hash);
    }
  }
  Standing all;
  for (int32_t id = 1; id <= pool.num_blocks(); ++id) {
    const auto* const block = pool.index().block(id);
    if (block == nullptr) continue;
    auto& [copies, tokens, parent] = all[hash_of(block->hash)];
    ++copies;
    const auto held = pool.index().tokens(id);
    tokens.assign(held.begin(), held.end());
    if (block->parent && hash_of_prefix.contains(*block->parent)) {
      parent = hash_of_prefix.at(*block->parent);
    }
  }
  return all;
}

Standing standing(const EventMirror& mirror) {
  Standing all;
  for (const auto& [name, block] : mirror.blocks()) {
    std::optional<std::string> parent;
    if (block.parent && mirror.find(*block.parent) != nullptr) parent = block.parent;
    all[block.hash] = {block.num_copies, block.tokens, parent};
  }
  return all;
}

/// Requests come, grow and end in a pool that is too small, and a mirror follows by bytes alone.
class Followed {
 public:
  explicit Followed(int seed) : rng_(static_cast<unsigned>(seed)) {
    pool_.set_event_sink(log_.sink());
  }

  void operation() {
    if (rng_() % 3 == 0 || live_.empty()) {
      start();
    } else if (auto& [id, tokens] = live_[rng_() % live_.size()]; rng_() % 2 == 0) {
      const auto more = static_cast<int>(1 + rng_() % 9);
      if (!manager_.allocate_slots(id, more)) return;
      for (int i = 0; i < more; ++i) tokens.push_back(static_cast<int32_t>(rng_() % 2));
      write(manager_, id, tokens);
    } else {
      manager_.free(id);
      std::swap(live_[&live_.back() - &live_[0]],
                *std::find_if(live_.begin(), live_.end(),
                              [&, gone = id](const auto& one) { return one.first == gone; }));
      live_.pop_back();
    }
    if (live_.empty() && rng_() % 8 == 0) manager_.reset_prefix_cache();
  }

  void follow() {
    const auto frame = log_.take(1);
    if (frame) seen_ += mirror_.apply(decode(frame->payload));
    CHECK(standing(mirror_) == standing(pool_));
    CHECK(mirror_.num_blocks() == pool_.num_cached());
  }
  const Changes& seen() const { return seen_; }

 private:
  void start() {
    Tokens tokens(1 + rng_() % 30);
    for (int32_t& token : tokens) token = static_cast<int32_t>(rng_() % 2);
    if (!lesson06_test::start(manager_, next_, tokens)) return;
    write(manager_, next_, tokens);
    live_.emplace_back(next_++, std::move(tokens));
  }

  std::mt19937 rng_;
  BlockPool pool_{12, 4};
  KvCacheManager manager_{pool_};
  EventLog log_;
  EventMirror mirror_;
  Changes seen_;
  std::vector<std::pair<int64_t, Tokens>> live_;
  int64_t next_ = 0;
};

}  // namespace

TEST_CASE("event log: after every operation a mirror of it holds what the pool's index holds") {
  Changes seen;
  for (int seed = 0; seed < 20; ++seed) {
    Followed followed(seed);
    for (int op = 0; op < 500; ++op) {
      followed.operation();
      if (op % 3 != 1) followed.follow();  // some batches tell of two operations
    }
    seen += followed.seen();
  }
  CHECK(seen.again > 500);
  CHECK(seen.removed > 1000);
  CHECK(seen.cleared > 20);
  CHECK(seen.not_there == 0);
}

TEST_CASE("event log: blocks of one prefix are one event, and the batches count from 0") {
  EventLog log;
  BlockPool pool(8, 2);
  pool.set_event_sink(log.sink());
  CHECK_FALSE(log.take(1));
  KvCacheManager manager(pool);
  const Tokens tokens{1, 2, 3, 4, 5, 6};
  REQUIRE(manager.allocate_slots(0, 6));
  write(manager, 0, tokens);
  const Frame frame = log.take(2.5).value();
  CHECK(frame.seq == 0);
  const EventBatch batch = decode(frame.payload);
  CHECK(batch.ts == 2.5);
  REQUIRE(batch.events.size() == 1);
  const auto& event = std::get<BlockStored>(batch.events[0]);
  CHECK(event.block_hashes.size() == 3);
  CHECK(event.token_ids == tokens);
  CHECK(event.block_size == 2);
  CHECK_FALSE(event.parent_block_hash);
  CHECK_FALSE(log.take(3));
  manager.free(0);
  REQUIRE(manager.allocate_slots(1, 16));
  CHECK(log.take(4)->seq == 1);
}

TEST_CASE("event log: blocks of lesson 10's later groups cost no batch") {
  EventLog log;
  BlockPool pool(8, 2);
  pool.set_event_sink(log.sink());
  const Tokens tokens{1, 2};
  std::vector<int32_t> blocks(4);
  pool.get_new_blocks(blocks);
  const auto cache = [&](size_t i, uint64_t hash, std::optional<lesson06::PrefixId> parent) {
    lesson06::BlockKey key;
    key.hash = hash;
    key.parent = parent;
    key.tokens = tokens;
    return pool.cache_full_block(blocks[i], key);
  };
  const lesson06::PrefixId prefix = cache(0, 7, {});
  cache(1, 8, -1 - prefix);  // of group 1
  cache(2, 9, prefix);
  pool.free_blocks(blocks);
  const EventBatch stored = decode(log.take(1).value().payload);
  REQUIRE(stored.events.size() == 1);
  CHECK(std::get<BlockStored>(stored.events[0]).block_hashes ==
        std::vector<BlockHash>{hash_of(7), hash_of(9)});
  std::vector<int32_t> others(8);
  pool.get_new_blocks(others);
  const Frame frame = log.take(2).value();
  CHECK(frame.seq == 1);
  CHECK(decode(frame.payload).events.size() == 2);  // of block 8 nothing was told
}

TEST_CASE("event log: adapters and salts are told, and part events") {
  EventLog log;
  BlockPool pool(8, 2);
  pool.set_event_sink(log.sink());
  KvCacheManager manager(pool);
  using lesson06::ExtraKey;
  const lesson06::ExtraKeys keys[] = {{{ExtraKey::Kind::kAdapter, "poet"}},
                                      {{ExtraKey::Kind::kSalt, "mine"}}};
  for (int64_t id = 0; id < 2; ++id) {
    const Tokens tokens{1, 2, 3, 4};
    REQUIRE(lesson06_test::start(manager, id, tokens, keys[id]));
    write(manager, id, tokens, keys[id]);
  }
  const std::string payload = log.take(1)->payload;
  const EventBatch batch = decode(payload);
  REQUIRE(batch.events.size() == 2);
  CHECK(std::get<BlockStored>(batch.events[0]).lora_name == "poet");
  CHECK(std::get<BlockStored>(batch.events[1]).lora_name.empty());
  CHECK(payload.find("mine") != std::string::npos);
}
