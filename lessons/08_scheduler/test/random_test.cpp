// Random arrivals, passes and cancels against the symbolic scheduler: who runs, in which blocks and
// who gives way is predicted; no slot is read before it is written; every hit holds the request's
// own prefix. KV_RANDOM_OPS sets the number of operations, KV_RANDOM_SEED the seed.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lessons/06_prefix_hashing/program/hashers.h"
#include "scheduler.h"
#include "symbolic_scheduler.h"
#include "tests/support/shortened.h"

namespace {

using kvtest::require;
using lesson07::BlockPool;
using lesson07::ExtraKey;
using lesson07::ExtraKeys;
using lesson07::FreeOrder;
using lesson07::SymbolicPool;
using lesson08::Chunk;
using lesson08::KvCacheManager;
using lesson08::Order;
using lesson08::Scheduler;
using lesson08::SchedulerOptions;
using lesson08::SymbolicScheduler;
using Tokens = std::vector<int32_t>;

#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kNumOps = 50'000;
#else
constexpr int64_t kNumOps = 4'000'000;
#endif

int64_t num_preemptions = 0;  // of all runs

/// What a run's number chooses: half of the runs have a hash of 3 bits.
struct Settings {
  explicit Settings(uint64_t number)
      : bits(number % 2 == 0 ? 64 : 3),
        num_blocks(number / 2 % 4 == 0 ? 1 : 4 + static_cast<int>(number / 8 % 8)),
        caching(number / 64 % 8 != 0),
        free_order(number / 512 % 2 == 0 ? FreeOrder::kAppend : FreeOrder::kUnhashedFirst) {
    options.order = number / 1024 % 2 == 0 ? Order::kFirstCome : Order::kPriority;
    options.max_tokens_per_pass = number / 2048 % 2 == 0 ? 64 : 5;
    options.max_chunk = number / 4096 % 2 == 0 ? 0 : 3;
    options.max_running = number / 8192 % 4 == 0 ? 2 : 5;
    options.full_sequence_must_fit = number / 32768 % 2 == 0;
    options.chunked_prefill = options.max_chunk > 0 || number / 65536 % 4 != 0;
  }
  int bits, num_blocks;
  bool caching;
  FreeOrder free_order;
  SchedulerOptions options;
};

class Run {
 public:
  explicit Run(uint64_t number)
      : settings_(number),
        pool_(settings_.num_blocks, kBlockSize, settings_.free_order),
        manager_(pool_,
                 {.hasher = lesson06::narrow_hasher(settings_.bits), .caching = settings_.caching}),
        scheduler_(manager_, settings_.options),
        model_pool_(settings_.num_blocks, kBlockSize, settings_.free_order, settings_.caching),
        model_(model_pool_, settings_.options),
        slots_(static_cast<size_t>((settings_.num_blocks + 1) * kBlockSize)) {}

  void operation(uint64_t op) {
    kvtest::Random random(op);
    const int kind = random.below(8);
    if (kind < 2) {
      submit(random);
    } else if (kind < 3 && !left_.empty()) {
      const int64_t id = any(random);
      text_ = fmt::format("cancel {}", id);
      end(id);
    } else if (kind < 4 && random.below(4) == 0) {
      text_ = "reset";
      reset();
    } else {
      pass(random, kind);
    }
    compare();
  }
  /// With no more arrivals everything ends.
  void finish() {
    for (int passes = 0; !scheduler_.idle(); ++passes) {
      require(passes < 10'000, "somebody is never served");
      kvtest::Random random(static_cast<uint64_t>(passes));
      pass(random, 0);
    }
    require(pool_.num_used() == 0, "blocks are in use although nobody is there");
    num_preemptions += scheduler_.num_preemptions();
  }
  const std::string& text() const { return text_; }
  std::string settings() const {
    const SchedulerOptions& o = settings_.options;
    return fmt::format(
        "{} blocks of {}, {} bits of hash{}{}, budget {}, chunk {}, {} at a time{}{}{}",
        settings_.num_blocks, kBlockSize, settings_.bits, settings_.caching ? "" : ", no caching",
        settings_.free_order == FreeOrder::kAppend ? "" : ", unhashed first", o.max_tokens_per_pass,
        o.max_chunk, o.max_running, o.order == Order::kPriority ? ", by priority" : "",
        o.full_sequence_must_fit ? "" : ", no gate", o.chunked_prefill ? "" : ", no chunks");
  }

 private:
  static constexpr int kBlockSize = 2;

  void submit(kvtest::Random& random) {
    Tokens prompt(static_cast<size_t>(1 + random.below(9)));
    for (int32_t& token : prompt) token = random.below(2);
    const int max_tokens = 1 + random.below(8);
    const int priority = random.below(3);
    const int kind = random.below(8);
    const int salt = kind == 0 ? 1 : 0;
    text_ = fmt::format("submit {}: {}, up to {} more, priority {}{}", next_,
                        fmt::join(prompt, " "), max_tokens, priority,
                        kind == 0   ? ", salted"
                        : kind == 1 ? ", skips reading"
                                    : "");
    const int slots = static_cast<int>(prompt.size()) + max_tokens - 1;
    const bool fits =
        (slots + kBlockSize - 1) / kBlockSize <= settings_.num_blocks &&
        (settings_.options.chunked_prefill || slots <= settings_.options.max_tokens_per_pass);
    if (left_.size() >= 12) return;
    bool refused = false;
    try {
      scheduler_.submit(next_, prompt, max_tokens,
                        {.priority = priority,
                         .extra_keys = salt ? ExtraKeys{{ExtraKey::Kind::kSalt, "s"}} : ExtraKeys{},
                         .skip_reading_prefix_cache = kind == 1});
    } catch (const std::exception&) {
      refused = true;
    }
    require(refused != fits, "what can never fit is taken, or what fits is refused");
    if (refused) return;
    model_.submit(next_, prompt, priority, salt, kind == 1);
    left_[next_++] = max_tokens;
  }
  int64_t any(kvtest::Random& random) {
    return std::next(left_.begin(), random.below(left_.size()))->first;
  }
  void end(int64_t id) {
    require(scheduler_.finish(id), "a request is not there");
    model_.finish(id);
    left_.erase(id);
  }
  void reset() {
    require(scheduler_.reset_prefix_cache() == model_.running().empty(), "a reset is refused");
    require(scheduler_.reset_prefix_cache(true), "a reset with leave to preempt is refused");
    model_.reset();
    require(pool_.num_cached() == 0, "something can be found after a reset");
  }
  void give_token(int64_t id, int32_t token) {
    scheduler_.add_token(id, token);
    model_.add_token(id, token);
    if (--left_.at(id) == 0) end(id);
  }
  /// kind 7: with a cancel, before anything of the pass can be found; 6: with a reset; 5: one token
  /// comes late, when the next pass is scheduled.
  void pass(kvtest::Random& random, int kind) {
    text_ = "pass";
    const auto& output = scheduler_.schedule();
    const std::vector<Chunk>& chunks = output.chunks;
    require(output == model_.schedule(), "another pass");
    for (const Chunk& chunk : chunks) write(chunk);
    for (const Chunk& chunk : chunks) read(chunk);
    const std::optional<int64_t> late = std::exchange(late_, std::nullopt);
    if (late && left_.contains(*late)) give_token(*late, random.below(2));
    if (kind == 7 && !left_.empty()) {
      const int64_t id = any(random);
      text_ += fmt::format(", {} is cancelled in it", id);
      end(id);
    }
    if (kind == 6 && random.below(8) == 0) {
      text_ += ", a reset in it";
      reset();
    }
    scheduler_.update(chunks);
    model_.update(chunks);
    for (const Chunk& chunk : chunks) {
      if (!left_.contains(chunk.id)) continue;
      require(scheduler_.wants_token(chunk.id) == model_.requests().at(chunk.id).wants_token,
              "a token is wanted, or is not");
      if (!scheduler_.wants_token(chunk.id)) continue;
      if (kind == 5 && !late_) {
        late_ = chunk.id;
        text_ += fmt::format(", the token of {} comes late", chunk.id);
        continue;
      }
      give_token(chunk.id, random.below(2));
    }
  }
  Tokens prefix(int64_t id, int end) const {
    const auto& tokens = scheduler_.request(id).tokens;
    return Tokens(tokens.begin(), tokens.begin() + end);
  }
  void write(const Chunk& chunk) {
    const auto& request = scheduler_.request(chunk.id);
    const auto& table = manager_.table(chunk.id);
    require(table.num_tokens() == request.num_computed + chunk.num_tokens, "other slots");
    for (int t = request.num_computed; t < table.num_tokens(); ++t) {
      slots_[static_cast<size_t>(table.slot(t))] = prefix(chunk.id, t + 1);
    }
  }
  void read(const Chunk& chunk) const {
    const auto& table = manager_.table(chunk.id);
    for (int t = 0; t < table.num_tokens(); ++t) {
      require(slots_[static_cast<size_t>(table.slot(t))] == prefix(chunk.id, t + 1),
              "a slot is read that holds something else");
    }
  }
  void compare() const {
    scheduler_.check();
    require(scheduler_.waiting() == model_.waiting(), "others wait, or in another order");
    require(scheduler_.running() == model_.running(), "others run");
    for (const int64_t id : model_.running()) {
      require(
          std::ranges::equal(manager_.table(id).block_ids(), model_pool_.requests().at(id).table),
          "a table has other blocks");
    }
    require(model_pool_.same_queue(pool_), "the free queue is another one");
    require(scheduler_.num_preemptions() == model_.num_preemptions(), "other preemptions");
  }

  Settings settings_;
  BlockPool pool_;
  KvCacheManager manager_;
  Scheduler scheduler_;
  SymbolicPool model_pool_;
  SymbolicScheduler model_;
  std::vector<Tokens> slots_;    // the exact prefix whose K and V stand in each slot
  std::map<int64_t, int> left_;  // tokens that each request still generates
  std::optional<int64_t> late_;  // its token comes in the next pass
  int64_t next_ = 0;
  std::string text_;
};

}  // namespace

TEST_CASE("random arrivals, passes and cancels: all of it is as predicted") {
  const auto seed = static_cast<uint64_t>(kvtest::number_from("KV_RANDOM_SEED", 1));
  const int64_t num_ops = kvtest::number_from("KV_RANDOM_OPS", kNumOps);
  const auto report = kvtest::search<Run>(num_ops, 250, seed);
  CHECK_MESSAGE(report.empty(), report);
  CHECK(num_preemptions > num_ops / 100);
}
