#pragma once

// Random arrivals, passes and cancels of a scheduler beside its symbolic one. For tests of this
// lesson and of later ones, which differ in `Pair`: a scheduler with its pool, and the models that
// predict them.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lessons/06_prefix_hashing/cli/hashers.h"
#include "lessons/08_scheduler/scheduler.h"
#include "lessons/08_scheduler/test/symbolic_scheduler.h"
#include "tests/support/shortened.h"

namespace lesson08_test {

using kvtest::require;
using lesson06::ExtraKey;
using lesson06::ExtraKeys;
using lesson07::FreeOrder;
using lesson08::Chunk;
using lesson08::Order;
using Tokens = std::vector<int32_t>;

/// The settings of a run, chosen by its number; half of the runs have a hash of 3 bits.
struct Settings {
  static constexpr int kBlockSize = 2;

  explicit Settings(uint64_t number)
      : bits(number % 2 == 0 ? 64 : 3),
        num_blocks(number / 2 % 4 == 0 ? 1 : 4 + static_cast<int>(number / 8 % 8)),
        caching(number / 64 % 8 != 0),
        free_order(number / 512 % 2 == 0 ? FreeOrder::kAppend : FreeOrder::kUnhashedFirst),
        num_guesses(static_cast<int>(number / 262144 % 6)) {
    options.order = number / 1024 % 2 == 0 ? Order::kFirstCome : Order::kPriority;
    options.max_tokens_per_pass = number / 2048 % 2 == 0 ? 64 : 5;
    options.max_chunk = number / 4096 % 2 == 0 ? 0 : 3;
    options.max_running = number / 8192 % 4 == 0 ? 2 : 5;
    options.full_sequence_must_fit = number / 32768 % 2 == 0;
    options.chunked_prefill = options.max_chunk > 0 || number / 65536 % 4 != 0;
  }
  std::string text() const {
    return fmt::format(
        "{} blocks of {}, {} bits of hash{}{}, budget {}, chunk {}, {} at a time{}{}{}", num_blocks,
        kBlockSize, bits, caching ? "" : ", no caching",
        free_order == FreeOrder::kAppend ? "" : ", unhashed first", options.max_tokens_per_pass,
        options.max_chunk, options.max_running,
        options.order == Order::kPriority ? ", by priority" : "",
        options.full_sequence_must_fit ? "" : ", no gate",
        options.chunked_prefill ? "" : ", no chunks");
  }

  int bits, num_blocks;
  bool caching;
  FreeOrder free_order;
  int num_guesses;  // for lesson 09
  lesson08::SchedulerOptions options;
};

/// Pair is made from Settings and has
///   pool, manager, scheduler          what is tested
///   model_pool, model                 what predicts it
///   submit_to_model(...)              as scheduler.submit()
///   guesses(id), model_guesses(id)    tokens that run after the request's chunk; none here
///   count()                           notes what the run has seen, at its end
///   settings()                        what is chosen beyond Settings, for reports
template <class Pair>
class RandomServing : private Pair {
 public:
  explicit RandomServing(uint64_t number)
      : Pair(Settings(number)),
        settings_(number),
        slots_((settings_.num_blocks + 1) * kBlockSize) {}

  void operation(uint64_t op) {
    kvtest::Random random(op);
    const int kind = random.below(8);
    if (kind < 2) {
      submit(random);
    } else if (kind < 3 && !most_.empty()) {
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
  /// Runs passes without arrivals until every request has ended.
  void finish() {
    for (int passes = 0; !scheduler.idle(); ++passes) {
      require(passes < 10'000, "a request is never served");
      kvtest::Random random(static_cast<uint64_t>(passes));
      pass(random, 0);
      compare();
    }
    require(pool.num_used() == 0, "blocks are in use although no request is there");
    Pair::count();
  }
  const std::string& text() const { return text_; }
  std::string settings() const { return settings_.text() + Pair::settings(); }

 private:
  static constexpr int kBlockSize = Settings::kBlockSize;
  using Pair::manager, Pair::model, Pair::model_pool, Pair::pool, Pair::scheduler;

  void submit(kvtest::Random& random) {
    Tokens prompt(1 + random.below(9));
    for (int32_t& token : prompt) token = random.below(2);
    const int max_tokens = 1 + random.below(10);
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
    if (most_.size() >= 12) return;
    bool refused = false;
    try {
      scheduler.submit(next_, prompt, max_tokens,
                       {.priority = priority,
                        .extra_keys = salt ? ExtraKeys{{ExtraKey::Kind::kSalt, "s"}} : ExtraKeys{},
                        .skip_reading_prefix_cache = kind == 1});
    } catch (const std::exception&) {
      refused = true;
    }
    require(refused != fits, "what can never fit is taken, or what fits is refused");
    if (refused) return;
    Pair::submit_to_model(next_, prompt, max_tokens, priority, salt, kind == 1);
    most_[next_++] = slots + 1;
  }
  int64_t any(kvtest::Random& random) {
    return std::next(most_.begin(), random.below(most_.size()))->first;
  }
  void end(int64_t id) {
    require(scheduler.finish(id), "a request is not there");
    model.finish(id);
    most_.erase(id);
  }
  void reset() {
    require(scheduler.reset_prefix_cache() == model.running().empty(), "a reset is refused");
    require(scheduler.reset_prefix_cache(true), "a reset with leave to preempt is refused");
    model.reset();
    require(pool.num_cached() == 0, "something can be found after a reset");
  }
  bool wants_token(int64_t id) const {
    const bool wants = scheduler.wants_token(id);
    require(wants == model.requests().at(id).wants_token, "a token is wanted, or is not");
    return wants;
  }
  /// Gives a request the tokens that it wants, at most one for each of its rows of logits.
  void give_tokens(int64_t id, size_t num_rows, kvtest::Random& random) {
    for (; num_rows > 0 && wants_token(id); --num_rows) {
      const int32_t token = random.below(2);
      scheduler.add_token(id, token);
      model.add_token(id, token);
      if (std::ssize(scheduler.request(id).tokens) == most_.at(id)) return end(id);
    }
    require(!wants_token(id), "there is no row for a token that is wanted");
  }
  /// kind 7: with a cancel, before anything of the pass can be found; 6: with a reset; 5: tokens
  /// come late, when the next pass is scheduled.
  void pass(kvtest::Random& random, int kind) {
    text_ = "pass";
    const auto& output = scheduler.schedule();
    const std::vector<Chunk>& chunks = output.chunks;
    require(output == model.schedule(), "another pass");
    std::map<int64_t, size_t> num_rows;
    for (const Chunk& chunk : chunks) num_rows[chunk.id] = 1 + write(chunk);
    for (const Chunk& chunk : chunks) read(chunk.id);
    const std::optional<int64_t> late = std::exchange(late_, std::nullopt);
    if (late && most_.contains(*late)) give_tokens(*late, 1, random);
    if (kind == 7 && !most_.empty()) {
      const int64_t id = any(random);
      text_ += fmt::format(", {} is cancelled in it", id);
      end(id);
    }
    if (kind == 6 && random.below(8) == 0) {
      text_ += ", a reset in it";
      reset();
    }
    scheduler.update(chunks);
    model.update(chunks);
    for (const auto& [id, rows] : num_rows) {
      if (!most_.contains(id) || !wants_token(id)) continue;
      if (kind == 5 && !late_) {
        late_ = id;
        text_ += fmt::format(", the tokens of {} come late", id);
        continue;
      }
      give_tokens(id, rows, random);
    }
  }
  /// Writes the chunk and its guesses; returns the number of guesses.
  size_t write(const Chunk& chunk) {
    const auto& request = scheduler.request(chunk.id);
    const auto& table = manager.table(chunk.id);
    const Tokens guesses = Pair::guesses(chunk.id);
    require(guesses == Pair::model_guesses(chunk.id), "other guesses");
    const auto begin = request.tokens.begin();
    Tokens tokens(begin, begin + request.num_computed + chunk.num_tokens);
    tokens.insert(tokens.end(), guesses.begin(), guesses.end());
    require(table.num_tokens() == std::ssize(tokens), "other slots");
    for (int t = request.num_computed; t < table.num_tokens(); ++t) {
      slots_[table.slot(t)] = Tokens(tokens.begin(), tokens.begin() + t + 1);
    }
    running_[chunk.id] = std::move(tokens);
    return guesses.size();
  }
  void read(int64_t id) const {
    const auto& table = manager.table(id);
    const Tokens& tokens = running_.at(id);
    for (int t = 0; t < table.num_tokens(); ++t) {
      require(std::ranges::equal(slots_[table.slot(t)],
                                 std::span(tokens).first(static_cast<size_t>(t) + 1)),
              "a slot is read that holds something else");
    }
  }
  void compare() const {
    scheduler.check();
    require(scheduler.waiting() == model.waiting(), "others wait, or in another order");
    require(scheduler.running() == model.running(), "others run");
    for (const int64_t id : model.running()) {
      const auto& wanted = model_pool.requests().at(id);
      const auto& table = manager.table(id);
      require(std::ranges::equal(table.block_ids(), wanted.table), "a table has other blocks");
      require(table.num_tokens() == std::ssize(wanted.tokens), "a table has other slots");
    }
    require(model_pool.same_queue(pool), "the free queue is another one");
    require(scheduler.num_preemptions() == model.num_preemptions(), "other preemptions");
  }

  Settings settings_;
  std::vector<Tokens> slots_;          // the exact prefix whose K and V stand in each slot
  std::map<int64_t, Tokens> running_;  // what each request has run in its last pass, and before
  std::map<int64_t, int> most_;        // tokens of each request at its end
  std::optional<int64_t> late_;        // its tokens come in the next pass
  int64_t next_ = 0;
  std::string text_;
};

}  // namespace lesson08_test
