// Random arrivals, passes, guesses and cancels against the symbolic scheduler with guesses: who
// runs, in which blocks, which guesses run, and what is left of them is predicted; no slot is read
// that holds another prefix. KV_RANDOM_OPS sets the number of operations, KV_RANDOM_SEED the seed.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lessons/06_prefix_hashing/program/hashers.h"
#include "lookahead_scheduler.h"
#include "symbolic_lookahead.h"
#include "tests/support/shortened.h"

namespace {

using kvtest::require;
using lesson07::BlockPool;
using lesson07::ExtraKey;
using lesson07::ExtraKeys;
using lesson07::FreeOrder;
using lesson08::Chunk;
using lesson08::Order;
using lesson09::LookaheadManager;
using lesson09::LookaheadScheduler;
using lesson09::SymbolicLookahead;
using lesson09::SymbolicLookaheadPool;
using Tokens = std::vector<int32_t>;

#if defined(__SANITIZE_ADDRESS__)
constexpr int64_t kNumOps = 50'000;
#else
constexpr int64_t kNumOps = 2'000'000;
#endif

int64_t num_preemptions = 0, num_proposed = 0, num_accepted = 0;  // of all runs

/// What a run's number chooses: half of the runs have a hash of 3 bits.
struct Settings {
  explicit Settings(uint64_t number)
      : bits(number % 2 == 0 ? 64 : 3),
        num_blocks(number / 2 % 4 == 0 ? 1 : 4 + static_cast<int>(number / 8 % 8)),
        caching(number / 64 % 8 != 0),
        free_order(number / 512 % 2 == 0 ? FreeOrder::kAppend : FreeOrder::kUnhashedFirst),
        num_guesses(static_cast<int>(number / 1024 % 6)) {
    options.order = number / 8192 % 2 == 0 ? Order::kFirstCome : Order::kPriority;
    options.max_tokens_per_pass = number / 16384 % 2 == 0 ? 64 : 7;
    options.max_chunk = number / 32768 % 2 == 0 ? 0 : 3;
    options.max_running = number / 65536 % 4 == 0 ? 2 : 5;
    options.full_sequence_must_fit = number / 262144 % 2 == 0;
    options.chunked_prefill = options.max_chunk > 0 || number / 524288 % 4 != 0;
  }
  int bits, num_blocks;
  bool caching;
  FreeOrder free_order;
  int num_guesses;
  lesson08::SchedulerOptions options;
};

/// The same text, the same guesses: any number of them, right as often as two coins are equal.
class AnyGuesses : public lesson09::Drafter {
 public:
  Tokens propose(int64_t, std::span<const int32_t> tokens, int most) override {
    uint64_t text = tokens.size();
    for (const int32_t token : tokens) text = text * 31 + static_cast<uint64_t>(token);
    kvtest::Random random(text);
    Tokens guesses(std::min(static_cast<size_t>(most), static_cast<size_t>(random.below(7))));
    for (int32_t& guess : guesses) guess = random.below(2);
    return guesses;
  }
};

class Run {
 public:
  explicit Run(uint64_t number)
      : settings_(number),
        pool_(settings_.num_blocks, kBlockSize, settings_.free_order),
        manager_(pool_,
                 {.hasher = lesson06::narrow_hasher(settings_.bits), .caching = settings_.caching}),
        scheduler_(manager_, drafter_, settings_.options, {settings_.num_guesses}),
        model_pool_(settings_.num_blocks, kBlockSize, settings_.free_order, settings_.caching),
        model_(model_pool_, drafter_, settings_.options, settings_.num_guesses),
        slots_(static_cast<size_t>((settings_.num_blocks + 1) * kBlockSize)) {}

  void operation(uint64_t op) {
    kvtest::Random random(op);
    const int kind = random.below(8);
    if (kind < 2) {
      submit(random);
    } else if (kind < 3 && !most_.empty()) {
      const int64_t id = any(random);
      text_ = fmt::format("cancel {}", id);
      end(id);
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
      compare();
    }
    require(pool_.num_used() == 0, "blocks are in use although nobody is there");
    num_preemptions += scheduler_.num_preemptions();
    num_proposed += scheduler_.num_proposed();
    num_accepted += scheduler_.num_accepted();
  }
  const std::string& text() const { return text_; }
  std::string settings() const {
    const auto& o = settings_.options;
    return fmt::format(
        "{} guesses, {} blocks of {}, {} bits of hash{}{}, budget {}, chunk {}, {} at a "
        "time{}{}{}",
        settings_.num_guesses, settings_.num_blocks, kBlockSize, settings_.bits,
        settings_.caching ? "" : ", no caching",
        settings_.free_order == FreeOrder::kAppend ? "" : ", unhashed first", o.max_tokens_per_pass,
        o.max_chunk, o.max_running, o.order == Order::kPriority ? ", by priority" : "",
        o.full_sequence_must_fit ? "" : ", no gate", o.chunked_prefill ? "" : ", no chunks");
  }

 private:
  static constexpr int kBlockSize = 2;

  void submit(kvtest::Random& random) {
    Tokens prompt(static_cast<size_t>(1 + random.below(9)));
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
    const int most = static_cast<int>(prompt.size()) + max_tokens;
    const bool fits =
        (most + kBlockSize - 2) / kBlockSize <= settings_.num_blocks &&
        (settings_.options.chunked_prefill || most <= settings_.options.max_tokens_per_pass + 1);
    if (!fits || most_.size() >= 12) return;
    scheduler_.submit(next_, prompt, max_tokens,
                      {.priority = priority,
                       .extra_keys = salt ? ExtraKeys{{ExtraKey::Kind::kSalt, "s"}} : ExtraKeys{},
                       .skip_reading_prefix_cache = kind == 1});
    model_.submit(next_, prompt, max_tokens, priority, salt, kind == 1);
    most_[next_++] = most;
  }
  int64_t any(kvtest::Random& random) {
    return std::next(most_.begin(), random.below(most_.size()))->first;
  }
  void end(int64_t id) {
    require(scheduler_.finish(id), "a request is not there");
    model_.finish(id);
    most_.erase(id);
  }
  /// As many tokens as the request wants, of the rows that it has: `num_rows`.
  void give_tokens(int64_t id, size_t num_rows, kvtest::Random& random) {
    for (; num_rows > 0 && scheduler_.wants_token(id); --num_rows) {
      const int32_t token = random.below(2);
      scheduler_.add_token(id, token);
      model_.add_token(id, token);
      require(scheduler_.wants_token(id) == model_.requests().at(id).wants_token,
              "a guess is accepted, or is not");
      if (std::ssize(scheduler_.request(id).tokens) == most_.at(id)) return end(id);
    }
    require(!scheduler_.wants_token(id), "there is no row for a token that is wanted");
  }
  /// kind 7: with a cancel, before anything of the pass can be found; 6: with a reset; 5: tokens
  /// come late, when the next pass is scheduled.
  void pass(kvtest::Random& random, int kind) {
    text_ = "pass";
    const auto& output = scheduler_.schedule();
    const std::vector<Chunk>& chunks = output.chunks;
    require(output == model_.schedule(), "another pass");
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
      require(scheduler_.reset_prefix_cache(true), "a reset with leave to preempt is refused");
      model_.reset();
    }
    scheduler_.update(chunks);
    model_.update(chunks);
    for (const auto& [id, rows] : num_rows) {
      if (!most_.contains(id) || !scheduler_.wants_token(id)) continue;
      if (kind == 5 && !late_) {
        late_ = id;
        text_ += fmt::format(", the tokens of {} come late", id);
        continue;
      }
      give_tokens(id, rows, random);
    }
  }
  /// The chunk and its guesses; returns how many these are.
  size_t write(const Chunk& chunk) {
    const auto& request = scheduler_.request(chunk.id);
    const auto& table = manager_.table(chunk.id);
    const auto guesses = scheduler_.guesses(chunk.id);
    require(std::ranges::equal(guesses, model_.guesses(chunk.id)), "other guesses");
    Tokens tokens = prefix(chunk.id, request.num_computed + chunk.num_tokens);
    tokens.insert(tokens.end(), guesses.begin(), guesses.end());
    require(table.num_tokens() == std::ssize(tokens), "other slots");
    for (int t = request.num_computed; t < table.num_tokens(); ++t) {
      slots_[static_cast<size_t>(table.slot(t))] = Tokens(tokens.begin(), tokens.begin() + t + 1);
    }
    running_[chunk.id] = std::move(tokens);
    return guesses.size();
  }
  void read(int64_t id) const {
    const auto& table = manager_.table(id);
    const Tokens& tokens = running_.at(id);
    for (int t = 0; t < table.num_tokens(); ++t) {
      require(std::ranges::equal(slots_[static_cast<size_t>(table.slot(t))],
                                 std::span(tokens).first(static_cast<size_t>(t) + 1)),
              "a slot is read that holds something else");
    }
  }
  Tokens prefix(int64_t id, int end) const {
    const auto& tokens = scheduler_.request(id).tokens;
    return Tokens(tokens.begin(), tokens.begin() + end);
  }
  void compare() const {
    scheduler_.check();
    require(scheduler_.waiting() == model_.waiting(), "others wait, or in another order");
    require(scheduler_.running() == model_.running(), "others run");
    for (const int64_t id : model_.running()) {
      const auto& wanted = model_pool_.requests().at(id);
      require(std::ranges::equal(manager_.table(id).block_ids(), wanted.table),
              "a table has other blocks");
      require(manager_.table(id).num_tokens() == std::ssize(wanted.tokens),
              "a table has other slots");
    }
    require(model_pool_.same_queue(pool_), "the free queue is another one");
    require(scheduler_.num_preemptions() == model_.num_preemptions(), "other preemptions");
  }

  Settings settings_;
  AnyGuesses drafter_;
  BlockPool pool_;
  LookaheadManager manager_;
  LookaheadScheduler scheduler_;
  SymbolicLookaheadPool model_pool_;
  SymbolicLookahead model_;
  std::vector<Tokens> slots_;          // the exact prefix whose K and V stand in each slot
  std::map<int64_t, Tokens> running_;  // what each request has run in its last pass, and before
  std::map<int64_t, int> most_;        // tokens of each request at its end
  std::optional<int64_t> late_;        // its tokens come in the next pass
  int64_t next_ = 0;
  std::string text_;
};

}  // namespace

TEST_CASE("random arrivals, passes, guesses and cancels: all of it is as predicted") {
  const auto seed = static_cast<uint64_t>(kvtest::number_from("KV_RANDOM_SEED", 1));
  const int64_t num_ops = kvtest::number_from("KV_RANDOM_OPS", kNumOps);
  const auto report = kvtest::search<Run>(num_ops, 250, seed);
  CHECK_MESSAGE(report.empty(), report);
  CHECK(num_preemptions > num_ops / 200);
  CHECK(num_accepted > num_ops / 50);
  CHECK(num_proposed > 2 * num_accepted);
}
