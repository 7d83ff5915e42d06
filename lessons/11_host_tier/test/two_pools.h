#pragma once

// Two pools and lesson 08's scheduler over them, without a model: blocks hold numbers of prefixes
// instead of K and V. A pass writes them, and compares all that it reads.

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "lessons/06_prefix_hashing/test/requests.h"
#include "lessons/07_lru_eviction/test/queue_of.h"
#include "lessons/08_scheduler/test/pooled_scheduler.h"
#include "lessons/11_host_tier/engine.h"
#include "lessons/11_host_tier/page/stepped_transfers.h"
#include "prefixes.h"
#include "tests/support/shortened.h"

namespace lesson11_test {

using namespace lesson11;
using lesson07::FreeOrder;
using lesson07_test::queue_of;
using lesson08::Chunk;
using lesson08::SchedulerOptions;
using lesson08_test::Chunks;
using Ids = std::vector<int32_t>;
using Tokens = std::vector<int32_t>;
using Moves = std::vector<BlockMove>;
using Kv = std::vector<int64_t>;  // as Prefixes gives them

/// Transfers that may refuse to start.
class TestTransfers final : public SteppedTransfers {
 public:
  using SteppedTransfers::SteppedTransfers;
  Job start(Direction direction, std::span<const BlockMove> moves) override {
    if (refuses) throw std::runtime_error("the copies cannot be started");
    return started_ = SteppedTransfers::start(direction, moves);
  }
  Job started() const { return started_; }
  bool refuses = false;

 private:
  Job started_ = 0;
};

struct Sizes {
  int device = 4, host = 8;  // blocks
  int block_size = 4;
  int ahead = 64, min_hits = 0;  // see HostTierOptions
  CacheManagerOptions cache{};
  FreeOrder order = FreeOrder::kAppend;  // of the device
};

class TwoPools {
 public:
  explicit TwoPools(const Sizes& sizes = {}, const SchedulerOptions& options = {})
      : sizes_(sizes),
        device(sizes.device, sizes.block_size, sizes.order),
        host(sizes.host, sizes.block_size),
        contents_{contents(sizes.device), contents(sizes.host)},
        copies([this](Direction direction, const BlockMove& move) { copy(direction, move); }),
        manager(device, host, copies, sizes.cache),
        scheduler(manager, options) {}
  TwoPools(const TwoPools&) = delete;  // its members point into it
  TwoPools& operator=(const TwoPools&) = delete;

  /// The first tokens of an endless text.
  static Tokens prompt(int text, int num_tokens) {
    Tokens tokens(num_tokens);
    std::iota(tokens.begin(), tokens.end(), 1000 * text);
    return tokens;
  }
  /// The right K and V of the tokens.
  Kv kv_of(const Tokens& tokens, int salt = 0) { return prefixes_.of(tokens, salt); }
  const Kv& content(Direction from, int32_t block) const {  // kOffload: of the device
    return contents_[from == Direction::kOffload ? 0 : 1][block];
  }

  // Requests that no scheduler knows: all tokens that are not on the device are computed.
  void run(int64_t id, const Tokens& tokens) {
    compute(id, tokens);
    manager.free(id);
  }
  void compute(int64_t id, const Tokens& tokens) {
    BlockHashes hashes;
    const auto computed = manager.get_computed_blocks(tokens, hashes);
    const int rest = static_cast<int>(tokens.size()) - computed.num_tokens;
    kvtest::require(manager.allocate_slots(id, rest, computed).has_value(), "no room to compute");
    write(id, tokens, computed.num_tokens);
    manager.cache_blocks(id, tokens, hashes, static_cast<int>(tokens.size()));
  }
  void offload() { manager.offload(sizes_.ahead, sizes_.min_hits); }
  void offload_all() {
    offload();
    end_copies();
  }
  /// The host gets text 0, before another text runs and evicts some or all of it.
  void evict_to_host(int num_tokens, const Tokens& other) {
    run(1, prompt(0, num_tokens));
    offload_all();
    run(2, other);
  }
  /// The same with the first 8 tokens of texts 0 and 1. `other` takes all of the device.
  void evict_two_to_host(const Tokens& other) {
    for (const int text : {0, 1}) {
      run(1, prompt(text, 8));
      offload_all();
    }
    run(2, other);
  }
  /// All copies in flight end, and the manager has not been told.
  void end_copies() { copies.step(1 << 20); }
  void finish_all() {
    end_copies();
    manager.complete();
    manager.check();
  }
  /// Loads for a waiting request, with all free blocks of the device as its room.
  bool load(int64_t id, const Tokens& tokens) {
    int64_t room = device.num_free();
    return load(id, tokens, room);
  }
  /// What load_waiting() does for each request: false if `room` has fewer blocks than it takes.
  bool load(int64_t id, const Tokens& tokens, int64_t& room, int salt = 0) {
    BlockHashes hashes(keys_of(salt));
    const ComputedBlocks computed = manager.get_computed_blocks(tokens, hashes);
    room -= manager.num_blocks_to_start(id, computed, static_cast<int>(tokens.size()));
    if (room >= 0) manager.load(id, tokens, hashes, computed);
    return room >= 0;
  }
  /// Blocks of the host that a request would load.
  Ids find_in_host(const Tokens& tokens) const {
    BlockHashes hashes;
    const ComputedBlocks computed = manager.get_computed_blocks(tokens, hashes);
    return manager.find_in_host(tokens, hashes, computed);
  }
  /// Number of tokens that are found on the device.
  int num_on_device(const Tokens& tokens) const { return lesson06_test::found(manager, tokens); }
  /// The copies in flight, in their order.
  Moves in_flight(Direction direction) const {
    Moves moves;
    for (const auto& queued : copies.queue()) {
      if (queued.direction == direction) moves.push_back(queued.move);
    }
    return moves;
  }

  // Requests of the scheduler.
  void submit(int64_t id, const Tokens& tokens, int max_tokens = 1,
              lesson08::RequestOptions options = {}, int salt = 0) {
    options.extra_keys = keys_of(salt);
    scheduler.submit(id, tokens, max_tokens, std::move(options));
    salts_[id] = salt;
  }
  /// Runs a step, up to where its pass is done. Copies end only if the pass has to wait for them.
  Chunks begin_pass(bool worth_loading = true) {
    manager.complete();
    if (worth_loading) load_waiting(scheduler, manager);
    const Chunks chunks = scheduler.schedule().chunks;
    check();
    for (const Chunk& chunk : chunks) {
      const auto& request = scheduler.request(chunk.id);
      const int end = request.num_computed + chunk.num_tokens;
      write(chunk.id, first(request.tokens, end), request.num_computed, salts_.at(chunk.id));
    }
    for (const Chunk& chunk : chunks) {
      const auto& request = scheduler.request(chunk.id);
      Kv kv = contents_of(chunk.id);
      kv.resize(request.num_computed + chunk.num_tokens);
      kvtest::require(
          kv == kv_of(first(request.tokens, static_cast<int>(kv.size())), salts_.at(chunk.id)),
          "a request reads what is not its own");
    }
    return chunks;
  }
  /// Each request that has its logits gets a token, and ends with its last one.
  void end_pass(const Chunks& chunks, int32_t token = 7) {
    scheduler.update(chunks);
    for (const Chunk& chunk : chunks) {
      if (!is_there(chunk.id) || !scheduler.wants_token(chunk.id)) continue;
      scheduler.add_token(chunk.id, token);
      const auto& request = scheduler.request(chunk.id);
      if (std::ssize(request.tokens) == request.num_prompt + request.max_tokens) finish(chunk.id);
    }
    if (!chunks.empty()) offload();
    check();
  }
  Chunks pass() {
    Chunks chunks = begin_pass();
    end_pass(chunks);
    return chunks;
  }
  void finish(int64_t id) {
    kvtest::require(scheduler.finish(id), "a request is not there");
    salts_.erase(id);
  }
  bool is_there(int64_t id) const { return salts_.contains(id); }
  const std::map<int64_t, int>& salts() const { return salts_; }  // of the requests
  /// Runs passes until all requests have ended; with nothing to run it waits for copies, as a
  /// server does. Returns the number of passes.
  int run_to_end() {
    int passes = 0;
    for (; !scheduler.idle(); ++passes) {
      kvtest::require(passes < 10'000, "a request is never served");
      if (pass().empty()) manager.wait_for_load();
    }
    return passes;
  }
  void check() const {
    scheduler.check();
    manager.check();
  }

 private:
  static Tokens first(const Tokens& tokens, int n) { return {tokens.begin(), tokens.begin() + n}; }
  std::vector<Kv> contents(int num_blocks) const {
    return std::vector<Kv>(num_blocks + 1, Kv(sizes_.block_size));
  }
  void copy(Direction direction, const BlockMove& move) {
    Kv &on_device = contents_[0][move.device], &in_host = contents_[1][move.host];
    direction == Direction::kOffload ? in_host = on_device : on_device = in_host;
  }
  /// Writes K and V as a pass would, after the copies that it has to wait for.
  void write(int64_t id, const Tokens& tokens, int begin, int salt = 0) {
    copies.wait(manager.take_write_job());
    const Kv kv = kv_of(tokens, salt);
    for (size_t i = begin; i < tokens.size(); ++i) {
      const auto block = manager.table(id).block_ids()[i / sizes_.block_size];
      contents_[0][block][i % sizes_.block_size] = kv[i];
    }
  }
  Kv contents_of(int64_t id) const {
    Kv kv;
    for (const int32_t block : manager.table(id).block_ids()) {
      const Kv& content = contents_[0][block];
      kv.insert(kv.end(), content.begin(), content.end());
    }
    return kv;
  }

  Sizes sizes_;
  Prefixes prefixes_;
  std::map<int64_t, int> salts_;

 public:
  DevicePool device;
  BlockPool host;

 private:
  std::array<std::vector<Kv>, 2> contents_;  // [device, host][ids][block_size]

 public:
  TestTransfers copies;
  HostTierManager manager;
  Scheduler scheduler;
};

}  // namespace lesson11_test
