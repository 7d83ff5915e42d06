// The mirror: what the events say stands is what stands in the pool that told them.

#include <doctest/doctest.h>

#include <map>
#include <random>

#include "block_pool.h"
#include "lessons/06_prefix_hashing/test/requests.h"
#include "watch/event_log.h"
#include "watch/event_mirror.h"

namespace {

using namespace lesson07::watch;
using lesson06_test::Tokens;
using lesson06_test::write;
using lesson07::BlockPool;
using lesson07::KvCacheManager;

EventBatch batch_of(Event event) { return {.ts = 1, .events = {std::move(event)}}; }

BlockStored stored(const std::vector<uint64_t>& hashes, std::optional<uint64_t> parent = {}) {
  BlockStored event{.block_size = 4};
  for (const uint64_t hash : hashes) event.block_hashes.push_back(hash_of(hash));
  if (parent) event.parent_block_hash = hash_of(*parent);
  return event;
}

BlockRemoved removed(uint64_t hash) { return {.block_hashes = {hash_of(hash)}}; }

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
      std::swap(live_[static_cast<size_t>(&live_.back() - &live_[0])],
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

TEST_CASE("mirror: stored, evicted, and here again") {
  EventMirror mirror;
  CHECK(mirror.apply(batch_of(stored({1, 2}))).stored == 2);
  CHECK(mirror.apply(batch_of(removed(2))).removed == 1);
  CHECK(mirror.find(hash_of(2)) == nullptr);
  CHECK(mirror.evicted().back() == hash_of(2));
  const Changes changes = mirror.apply(batch_of(stored({2, 3}, 1)));
  CHECK(changes.stored == 2);
  CHECK(changes.again == 1);
  CHECK(mirror.find(hash_of(2))->was_evicted);
  CHECK_FALSE(mirror.find(hash_of(3))->was_evicted);
  CHECK(mirror.find(hash_of(3))->parent == hash_of(2));
  CHECK(mirror.evicted().empty());
  CHECK(mirror.apply(batch_of(removed(9))).not_there == 1);
  CHECK(mirror.apply(batch_of(AllBlocksCleared{})).cleared == 1);
  CHECK(mirror.num_blocks() == 0);
  CHECK(mirror.apply(batch_of(stored({1}))).again == 0);  // it was cleared, not evicted
}

TEST_CASE(
    "mirror: of two equal blocks one stays when one goes, and a place is a place of its own") {
  EventMirror mirror;
  mirror.apply(batch_of(stored({1})));
  mirror.apply(batch_of(stored({1})));
  BlockStored sunk = stored({1});
  sunk.place.medium = "CPU";
  mirror.apply(batch_of(sunk));
  CHECK(mirror.num_blocks() == 3);
  CHECK(mirror.blocks().size() == 2);
  mirror.apply(batch_of(removed(1)));
  CHECK(mirror.find(hash_of(1))->num_copies == 1);
  mirror.apply(batch_of(removed(1)));
  CHECK(mirror.find(hash_of(1)) == nullptr);
  CHECK(mirror.find(name_of(hash_of(1), sunk.place)) != nullptr);
}

TEST_CASE("mirror: chains, what is theirs alone, and chains that have lost their head") {
  EventMirror mirror;
  mirror.apply(batch_of(stored({1, 2, 3})));
  mirror.apply(batch_of(stored({4, 5, 6}, 2)));
  mirror.apply(batch_of(stored({7})));
  const auto chains = mirror.chains();
  REQUIRE(chains.size() == 3);
  CHECK(chains[0].blocks ==
        std::vector<BlockName>{hash_of(1), hash_of(2), hash_of(4), hash_of(5), hash_of(6)});
  CHECK(chains[0].num_tokens == 20);
  CHECK(chains[0].num_own == 3);
  CHECK(chains[1].num_own == 1);
  CHECK(chains[2].num_own == 1);
  mirror.apply(batch_of(removed(1)));
  CHECK(mirror.chains()[0].headless);
  CHECK(mirror.chains()[0].blocks.size() == 4);
  mirror.apply(batch_of(stored({8, 9}, 9)));  // its own ancestor: no server should say so
  CHECK(mirror.chains().size() == 3);
}

TEST_CASE("mirror: only so many evicted blocks are remembered") {
  EventMirror mirror(2);
  mirror.apply(batch_of(stored({1, 2, 3})));
  for (const uint64_t hash : {3u, 2u, 1u}) mirror.apply(batch_of(removed(hash)));
  CHECK(mirror.evicted().size() == 2);
  CHECK(mirror.apply(batch_of(stored({1, 2, 3}))).again == 2);
}

TEST_CASE("mirror: after every operation it holds what the pool's index holds") {
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

TEST_CASE("event log: adapters and salts are told, and part events") {
  EventLog log;
  BlockPool pool(8, 2);
  pool.set_event_sink(log.sink());
  KvCacheManager manager(pool);
  using lesson07::ExtraKey;
  const lesson07::ExtraKeys keys[] = {{{ExtraKey::Kind::kAdapter, "poet"}},
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
