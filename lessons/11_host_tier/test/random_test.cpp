// Random requests, passes and copies that end at any moment: every block that is read holds what
// its tokens say. KV_RANDOM_OPS sets the number of operations, KV_RANDOM_SEED the seed.

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "common/base/error.h"
#include "lessons/06_prefix_hashing/program/hashers.h"
#include "tiered_server.h"

namespace lesson11 {
namespace {

#if defined(KV_SANITIZED)
constexpr int64_t kNumOps = 100'000;
#else
constexpr int64_t kNumOps = 2'000'000;
#endif

/// Of all runs: what no run has seen, no run has tested.
struct Seen {
  int64_t loaded_tokens = 0, fetched = 0, damaged = 0, preemptions = 0, restarts = 0;
  int64_t lost_loads = 0;  // cancelled or preempted in the middle
};
Seen seen;

/// What a run's number chooses: half of the runs have a hash of 3 bits.
struct Settings {
  explicit Settings(uint64_t number) {
    kvtest::Random random(number);
    const auto from = [&](int least, int most) {
      return least + random.below(static_cast<size_t>(most - least + 1));
    };
    bits = from(0, 1) == 0 ? 64 : 3;
    sizes = {.device = from(1, 10),
             .host = from(1, 12),
             .file = from(0, 1) == 0 ? 0 : from(1, 16),
             .block_size = from(1, 3),
             .options = {.sink_ahead = from(0, 3) == 0 ? from(0, 3) : 64,
                         .min_hits_to_sink = from(0, 7) == 0 ? 1 : 0},
             .cache = {.hasher = lesson06::narrow_hasher(bits), .caching = from(0, 15) > 0},
             .order = from(0, 1) == 0 ? FreeOrder::kAppend : FreeOrder::kUnhashedFirst};
    options.max_tokens_per_pass = from(0, 1) == 0 ? 64 : 5;
    options.max_chunk = from(0, 1) == 0 ? 0 : 3;
    options.max_running = from(1, 5);
    options.full_sequence_must_fit = from(0, 1) == 0;
    options.chunked_prefill = options.max_chunk > 0 || from(0, 3) > 0;
    options.order = from(0, 1) == 0 ? lesson08::Order::kFirstCome : lesson08::Order::kPriority;
    policy = from(0, 7) == 0   ? LoadPolicy::kNever
             : from(0, 1) == 0 ? LoadPolicy::kAlways
                               : LoadPolicy::kQuicker;
  }
  std::string text() const {
    return fmt::format(
        "pools of {}, {} and {} blocks of {}, {} bits of hash, ahead {}, hits {}{}{}, budget {}, "
        "chunk {}, {} at a time{}{}{}, policy {}",
        sizes.device, sizes.host, sizes.file, sizes.block_size, bits, sizes.options.sink_ahead,
        sizes.options.min_hits_to_sink, sizes.cache.caching ? "" : ", no caching",
        sizes.order == FreeOrder::kAppend ? "" : ", unhashed first", options.max_tokens_per_pass,
        options.max_chunk, options.max_running,
        options.order == lesson08::Order::kPriority ? ", by priority" : "",
        options.full_sequence_must_fit ? "" : ", no gate",
        options.chunked_prefill ? "" : ", no chunks", static_cast<int>(policy));
  }

  int bits = 64;
  TierSizes sizes;
  SchedulerOptions options;
  LoadPolicy policy = LoadPolicy::kQuicker;
};

class Run : private Settings {
 public:
  explicit Run(uint64_t number) : Settings(number), server_(sizes, options, policy) {}

  void operation(uint64_t op) {
    kvtest::Random random(op);
    const int kind = random.below(32);
    if (kind < 7) {
      submit(random);
    } else if (kind < 19) {
      pass(random, kind < 9);
    } else if (kind < 26) {
      step(random);
    } else if (kind < 28 && !server_.salts().empty()) {
      cancel(random);
    } else if (kind < 29) {
      damage(random);
    } else if (kind < 30) {
      set_rates(random);
    } else {
      seldom(random);
    }
    server_.check();
  }
  /// With no more arrivals everything ends, and everything found is whole.
  void finish() {
    text_ = "the end";
    server_.run_to_end();
    server_.finish_all();
    const TieredManager& manager = server_.manager();
    kvtest::require(manager.pool().num_used() == 0, "blocks are in use although nobody is there");
    for (int tier = 0; tier < manager.num_tiers(); ++tier) {
      kvtest::require(manager.tier_pool(tier).num_used() == 0, "a copy has not landed");
      seen.damaged += manager.tier_metrics(tier).num_damaged;
      if (tier > 0) seen.fetched += manager.tier_metrics(tier).num_risen;
    }
    seen.loaded_tokens += server_.scheduler().num_loaded_tokens();
    seen.preemptions += server_.scheduler().num_preemptions();
  }
  const std::string& text() const { return text_; }
  std::string settings() const { return Settings::text(); }

 private:
  void submit(kvtest::Random& random) {
    text_ = "too many to submit one";
    if (server_.salts().size() >= 8) return;
    Tokens prompt(static_cast<size_t>(1 + random.below(9)));
    for (int32_t& token : prompt) token = random.below(8) == 0 ? 1 : 0;
    const int max_tokens = 1 + random.below(6);
    const int salt = random.below(8) == 0 ? 1 : 0;
    const bool skips = random.below(16) == 0;
    const int priority = random.below(3);
    text_ =
        fmt::format("submit {}: {}, up to {} more, priority {}{}{}", next_, fmt::join(prompt, " "),
                    max_tokens, priority, salt ? ", salted" : "", skips ? ", skips reading" : "");
    try {
      server_.submit(next_, prompt, max_tokens,
                     {.priority = priority, .skip_reading_prefix_cache = skips}, salt);
    } catch (const kv::UserError&) {  // it can never fit
      return;
    }
    ++next_;
  }
  void pass(kvtest::Random& random, bool with_cancel) {
    text_ = "pass";
    const int loading = num_loading();
    const auto preempted = server_.scheduler().num_preemptions();
    const auto chunks = server_.begin_pass();
    if (server_.scheduler().num_preemptions() > preempted) seen.lost_loads += loading;
    if (with_cancel && !server_.salts().empty()) {
      cancel(random);
      text_ = "pass, in it: " + text_;
    }
    server_.end_pass(chunks, random.below(2));
  }
  int num_loading() const {
    int loading = 0;
    for (const auto& [id, salt] : server_.salts()) loading += server_.scheduler().is_loading(id);
    return loading;
  }
  void step(kvtest::Random& random) {
    const int tier = random.below(static_cast<size_t>(server_.manager().num_tiers()));
    const int num_blocks = 1 + random.below(4);
    text_ = fmt::format("{} blocks of tier {} are copied", num_blocks, tier);
    server_.copies(tier).step(num_blocks);
    if (random.below(4) == 0) server_.manager().finish_moves();
  }
  void cancel(kvtest::Random& random) {
    const int64_t id =
        std::next(server_.salts().begin(), random.below(server_.salts().size()))->first;
    text_ = fmt::format("cancel {}", id);
    seen.lost_loads += server_.scheduler().is_loading(id);
    server_.finish(id);
  }
  void damage(kvtest::Random& random) {
    text_ = "no file";
    if (sizes.file == 0) return;
    const int32_t record = 1 + random.below(static_cast<size_t>(sizes.file));
    const bool full = random.below(8) == 0;
    text_ =
        full ? "the disk is full" : fmt::format("record {} is damaged, room on the disk", record);
    server_.fill_disk(1, full);
    server_.damage(1, record);
  }
  void set_rates(kvtest::Random& random) {
    text_ = "rates";
    server_.scheduler().set_rates(
        {.seconds_per_token = random.below(3) * 1.0,
         .seconds_per_block = {random.below(3) * 1.0, random.below(3) * 1.0}});
  }
  void seldom(kvtest::Random& random) {
    const int kind = random.below(16);
    text_ = "nothing";
    if (kind == 0) {
      text_ = "reset";
      kvtest::require(server_.scheduler().reset_prefix_cache(true), "a reset is refused");
      for (int tier = 0; tier < server_.manager().num_tiers(); ++tier) {
        kvtest::require(server_.manager().tier_pool(tier).num_cached() == 0, "a tier keeps blocks");
      }
    } else if (kind < 3) {
      text_ = "flush";
      server_.manager().flush();
    } else if (kind < 5 && sizes.file > 0) {
      text_ = "restart";
      if (random.below(2) == 0) server_.manager().flush();
      server_.restart();
      ++seen.restarts;
    }
  }

  TieredServer server_;
  int64_t next_ = 0;
  std::string text_;
};

}  // namespace

TEST_CASE("random operations: whoever reads a block reads K and V of its own tokens") {
  const auto seed = static_cast<uint64_t>(kvtest::number_from("KV_RANDOM_SEED", 1));
  const int64_t num_ops = kvtest::number_from("KV_RANDOM_OPS", kNumOps);
  seen = {};
  const auto report = kvtest::search<Run>(num_ops, 200, seed);
  CHECK_MESSAGE(report.empty(), report);
  if (num_ops < 50'000 || !report.empty()) return;
  for (const int64_t count : {seen.loaded_tokens, seen.fetched, seen.damaged, seen.preemptions,
                              seen.restarts, seen.lost_loads}) {
    CHECK(count > num_ops / 100'000);
  }
}

}  // namespace lesson11
