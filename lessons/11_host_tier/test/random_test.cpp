// Random requests, passes and copies that end at any moment: every block that is read holds K and V
// of its tokens. KV_RANDOM_OPS sets the number of operations, KV_RANDOM_SEED the seed.

#include <fmt/format.h>

#include "common/error.h"
#include "lessons/06_prefix_hashing/cli/hashers.h"
#include "two_pools.h"

namespace {

using namespace lesson11_test;

/// Counts of all runs: a case that no run has seen is not tested.
struct Seen {
  int64_t loaded = 0, offloaded = 0, hits = 0, preemptions = 0, waits = 0, lost_loads = 0;
};
Seen seen;

/// The settings of a run, chosen by its number; half of the runs have a hash of 3 bits.
struct Settings {
  explicit Settings(uint64_t number) {
    kvtest::Random random(number);
    bits = random.from(0, 1) == 0 ? 64 : 3;
    sizes = {.device = random.from(1, 10),
             .host = random.from(1, 16),
             .block_size = random.from(1, 3),
             .ahead = random.from(0, 3) == 0 ? random.from(0, 3) : 64,
             .min_hits = random.from(0, 7) == 0 ? 1 : 0,
             .cache = {.hasher = lesson06::narrow_hasher(bits), .caching = random.from(0, 15) > 0},
             .order = random.from(0, 1) == 0 ? FreeOrder::kAppend : FreeOrder::kUnhashedFirst};
    options.max_tokens_per_pass = random.from(0, 1) == 0 ? 64 : 5;
    options.max_chunk = random.from(0, 1) == 0 ? 0 : 3;
    options.max_running = random.from(1, 5);
    options.full_sequence_must_fit = random.from(0, 1) == 0;
    options.chunked_prefill = options.max_chunk > 0 || random.from(0, 3) > 0;
    options.order =
        random.from(0, 1) == 0 ? lesson08::Order::kFirstCome : lesson08::Order::kPriority;
  }
  std::string text() const {
    return fmt::format(
        "pools of {} and {} blocks of {}, {} bits of hash, ahead {}, hits {}{}{}, budget {}, chunk "
        "{}, {} at a time{}{}{}",
        sizes.device, sizes.host, sizes.block_size, bits, sizes.ahead, sizes.min_hits,
        sizes.cache.caching ? "" : ", no caching",
        sizes.order == FreeOrder::kAppend ? "" : ", unhashed first", options.max_tokens_per_pass,
        options.max_chunk, options.max_running,
        options.order == lesson08::Order::kPriority ? ", by priority" : "",
        options.full_sequence_must_fit ? "" : ", no gate",
        options.chunked_prefill ? "" : ", no chunks");
  }

  int bits = 64;
  Sizes sizes;
  SchedulerOptions options;
};

class Run : private Settings {
 public:
  explicit Run(uint64_t number) : Settings(number), pools_(sizes, options) {}

  void operation(uint64_t op) {
    kvtest::Random random(op);
    const int kind = random.below(32);
    if (kind < 7) {
      submit(random);
    } else if (kind < 19) {
      pass(random, kind < 9);
    } else if (kind < 28) {
      text_ = "blocks are copied";
      pools_.copies.step(1 + random.below(4));
      if (random.below(4) == 0) pools_.manager.complete();
    } else if (kind < 30 && !pools_.salts().empty()) {
      cancel(random);
    } else if (random.below(16) == 0) {
      text_ = "reset";
      kvtest::require(pools_.scheduler.reset_prefix_cache(true), "a reset is refused");
      kvtest::require(pools_.host.num_cached() == 0, "the host keeps blocks");
    }
    pools_.check();
  }
  /// Runs passes until every request has ended; then no block is in use.
  void finish() {
    text_ = "the end";
    pools_.run_to_end();
    pools_.finish_all();
    kvtest::require(pools_.device.num_used() == 0, "blocks are in use without a request");
    kvtest::require(pools_.host.num_used() == 0, "blocks of the host are in use");
    const TierMetrics& metrics = pools_.manager.metrics();
    seen.loaded += metrics.num_loaded;
    seen.offloaded += metrics.num_offloaded;
    seen.hits += metrics.num_hits_in_host;
    seen.preemptions += pools_.scheduler.num_preemptions();
  }
  const std::string& text() const { return text_; }
  std::string settings() const { return Settings::text(); }

 private:
  void submit(kvtest::Random& random) {
    text_ = "too many to submit one";
    if (pools_.salts().size() >= 8) return;
    Tokens prompt(1 + random.below(9));
    for (int32_t& token : prompt) token = random.below(8) == 0 ? 1 : 0;
    const int max_tokens = 1 + random.below(6);
    const int salt = random.below(8) == 0 ? 1 : 0;
    const bool skips = random.below(16) == 0;
    const int priority = random.below(3);
    text_ =
        fmt::format("submit {}: {}, up to {} more, priority {}{}{}", next_, fmt::join(prompt, " "),
                    max_tokens, priority, salt ? ", salted" : "", skips ? ", skips reading" : "");
    try {
      pools_.submit(next_, prompt, max_tokens,
                    {.priority = priority, .skip_reading_prefix_cache = skips}, salt);
    } catch (const kv::UserError&) {  // it can never fit
      return;
    }
    ++next_;
  }
  void pass(kvtest::Random& random, bool with_cancel) {
    text_ = "pass";
    const auto chunks = pools_.begin_pass(random.below(8) > 0);
    for (const auto& [id, salt] : pools_.salts()) seen.waits += pools_.manager.is_loading(id);
    if (with_cancel && !pools_.salts().empty()) {
      cancel(random);
      text_ = "pass, in it: " + text_;
    }
    pools_.end_pass(chunks, random.below(2));
  }
  void cancel(kvtest::Random& random) {
    const int64_t id =
        std::next(pools_.salts().begin(), random.below(pools_.salts().size()))->first;
    text_ = fmt::format("cancel {}", id);
    seen.lost_loads += pools_.manager.is_loading(id);
    pools_.finish(id);
  }

  TwoPools pools_;
  int64_t next_ = 0;
  std::string text_;
};

}  // namespace

TEST_CASE("random operations: a request that reads a block reads K and V of its own tokens") {
  const int64_t num_ops = kvtest::num_random_ops(2'000'000, 100'000);
  seen = {};
  const auto report = kvtest::search<Run>(num_ops, 200);
  CHECK_MESSAGE(report.empty(), report);
  if (num_ops < 50'000 || !report.empty()) return;
  for (const int64_t count :
       {seen.loaded, seen.offloaded, seen.hits, seen.preemptions, seen.waits, seen.lost_loads}) {
    CHECK(count > num_ops / 100'000);
  }
}
