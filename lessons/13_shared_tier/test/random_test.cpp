// Random requests, passes, trips and damage on two servers over one store: every row that a request
// reads holds K and V of its tokens. KV_RANDOM_OPS sets the number of operations, KV_RANDOM_SEED
// the seed.

#include <fmt/ranges.h>
#include "tests/support/readable.h"  // before the checks

#include <array>
#include <atomic>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bad_stores.h"
#include "common/error.h"
#include "engine.h"
#include "lessons/06_prefix_hashing/cli/hashers.h"
#include "lessons/11_host_tier/test/prefixes.h"
#include "lessons/12_file_tier/test/random_pools.h"
#include "tests/support/shortened.h"

namespace {

using namespace lesson13;
using lesson11_test::keys_of;
using Tokens = std::vector<int32_t>;

/// Counts of all runs: a case that no run has seen is not tested.
struct Seen {
  int64_t put = 0, fetched = 0, hits = 0, damaged = 0, unreachable = 0, checked = 0, not_put = 0,
          changed_here = 0, aborted_waits = 0;
};
Seen seen;

/// The settings of a run, chosen by its number.
struct Settings : lesson12_test::PoolSettings {
  explicit Settings(uint64_t number) : PoolSettings(kvtest::Random(number)) {
    kvtest::Random random(~number);
    store_values = random.from(0, 3) == 0 ? random.from(0, 6) : 1000;
    check_every = random.from(0, 3) == 0 ? random.from(1, 2) : 0;
  }
  std::string text() const {
    return fmt::format("{}, a store of {}{}", PoolSettings::text(), store_values,
                       check_every > 0 ? fmt::format(", every {} is checked", check_every) : "");
  }
  int store_values = 1000, check_every = 0;
};

struct Machine : lesson12_test::PoolMemory {
  Machine(BlockStore& store, const Settings& settings)
      : PoolMemory(settings),
        tier(device.regions, memory, store, 12, stream,
             {.hasher = lesson06::narrow_hasher(settings.bits)},
             {.check_every = settings.check_every},
             settings.is_threaded ? kv::RunJobs::kThread : kv::RunJobs::kAtOnce),
        scheduler(tier.manager(), {.max_tokens_per_pass = settings.budget}) {}

  struct Request {
    Tokens prompt;
    int max_tokens = 1;
    int salt = 0;
    bool waits = false;
  };
  SharedTier tier;
  Server::Scheduler scheduler;
  std::map<int64_t, Request> requests;
};

class Run : private Settings {
 public:
  explicit Run(uint64_t number)
      : Settings(number),
        values_(static_cast<size_t>(store_values) *
                (56 + static_cast<size_t>(block_size) * (4 + 2 * 2 * 8 + scale_bytes()))) {
    store_.answers = [this] { return store_is_there_.load(); };
    for (auto& machine : machines_) {
      machine = std::make_unique<Machine>(store_, static_cast<const Settings&>(*this));
    }
  }

  void operation(uint64_t op) {
    kvtest::Random random(op);
    Machine& machine = *machines_[random.below(2)];
    const int kind = random.below(32);
    if (kind < 9) {
      submit(machine, random);
    } else if (kind < 24) {
      pass(machine, random.below(2));
    } else if (kind < 28) {
      damage(machine, random);
    } else if (kind < 30) {
      abort(machine, random);
    } else if (kind < 31) {
      text_ = store_is_there_ ? "the store is gone" : "the store is back";
      store_is_there_ = !store_is_there_ || random.below(2) == 0;
    } else if (random.below(4) == 0) {
      text_ = "reset";
      machine.tier.set_fingerprint(12);
      kvtest::require(machine.scheduler.reset_prefix_cache(true), "a reset is refused");
      kvtest::require(machine.tier.manager().host().num_cached() == 0, "the host keeps blocks");
    }
    check();
  }
  /// Runs passes until every request has ended; then no block is in use.
  void finish() {
    text_ = "the end";
    for (auto& machine : machines_) {
      for (int i = 0; !machine->requests.empty(); ++i) {
        kvtest::require(i < 10'000, "a request is never served");
        pass(*machine, 0);
      }
      machine->tier.settle();
      check();
      kvtest::require(machine->tier.manager().pool().num_used() == 0, "a block stays in use");
      kvtest::require(machine->tier.manager().host().num_used() == 0,
                      "a block of the host stays in use");
      const SharedMetrics& metrics = machine->tier.metrics();
      kvtest::require(metrics.num_poisoned == 0, "what was computed differs from the store's");
      seen.put += metrics.num_put;
      seen.fetched += metrics.num_fetched;
      seen.damaged += metrics.num_damaged;
      seen.unreachable += metrics.num_unreachable;
      seen.checked += metrics.num_checked;
      seen.not_put += metrics.num_not_put;
      seen.changed_here += metrics.num_changed_here;
      seen.hits += machine->tier.manager().metrics().num_hits_in_host;
    }
  }
  const std::string& text() const { return text_; }
  std::string settings() const { return Settings::text(); }

 private:
  /// Of a token, in both layers.
  size_t scale_bytes() const { return scales ? 2 * 16 : 0; }
  void submit(Machine& machine, kvtest::Random& random) {
    text_ = "too many to submit one";
    if (machine.requests.size() >= 6) return;
    Machine::Request request{.prompt = Tokens(1 + random.below(9)),
                             .max_tokens = 1 + random.below(4),
                             .salt = random.below(6) == 0 ? 1 : 0};
    for (int32_t& token : request.prompt) token = random.below(4) == 0 ? 1 : 0;
    text_ = fmt::format("submit {}: {}, up to {} more{}", next_, fmt::join(request.prompt, " "),
                        request.max_tokens, request.salt > 0 ? ", salted" : "");
    try {
      machine.scheduler.check_fits(next_, request.prompt.size(), request.max_tokens);
    } catch (const kv::UserError&) {
      return;
    }
    const bool look_up = random.below(8) > 0;
    machine.tier.add(next_, request.prompt, keys_of(request.salt), look_up);
    request.waits = true;
    machine.requests[next_] = request;
    ++next_;
  }
  static void submit_ready(Machine& machine, int64_t id) {
    Machine::Request& request = machine.requests.at(id);
    request.waits = false;
    machine.scheduler.submit(id, request.prompt, request.max_tokens,
                             {.extra_keys = keys_of(request.salt)});
  }
  /// Runs a pass, as a server's step does.
  void pass(Machine& machine, int32_t token) {
    text_ = "pass";
    SharedTier& tier = machine.tier;
    Server::Scheduler& scheduler = machine.scheduler;
    for (const int64_t id : tier.complete()) submit_ready(machine, id);
    load_waiting(scheduler, tier.manager());
    const auto chunks = scheduler.schedule().chunks;
    if (chunks.empty()) {
      tier.manager().wait_for_load();
      if (scheduler.idle()) tier.wait();
      return;
    }
    tier.begin_pass();
    for (const lesson08::Chunk& chunk : chunks) {
      const auto& request = scheduler.request(chunk.id);
      tier.add_chunk(chunk.id, request.tokens, request.num_computed,
                     request.num_computed + chunk.num_tokens);
    }
    tier.swapper().wait(tier.manager().take_write_job());
    lesson11_test::run_chunks(machine.device.regions, scheduler, chunks, [&](const auto& request) {
      return prefixes_.of(request.tokens, machine.requests.at(request.id).salt);
    });
    if (token == 0) tier.gather(0);  // else all layers at the end
    scheduler.update(chunks);
    tier.end_pass();
    lesson11_test::add_tokens(scheduler, chunks, token, [&](int64_t id) { remove(machine, id); });
  }
  static void remove(Machine& machine, int64_t id) {
    machine.tier.remove(id);
    machine.scheduler.finish(id);
    machine.requests.erase(id);
  }
  void abort(Machine& machine, kvtest::Random& random) {
    text_ = "no request to abort";
    if (machine.requests.empty()) return;
    const auto request = std::next(machine.requests.begin(), random.below(machine.requests.size()));
    text_ = fmt::format("abort {}", request->first);
    seen.aborted_waits += request->second.waits;
    remove(machine, request->first);
    if (machine.scheduler.idle()) machine.tier.manager().finish_loads();
  }
  /// Flips a bit, shortens a value, or puts one under another name. A value that a check looks at
  /// is damaged, too, but never poisoned.
  void damage(Machine& machine, kvtest::Random& random) {
    const auto bit = static_cast<std::byte>(1 << random.below(8));
    const int where = random.below(5);
    const auto loads = machine.tier.swapper().loads();
    if (where == 0 && !loads.empty()) {
      const BlockMove move = loads.front().move;
      text_ = fmt::format("block {} is damaged on its way to the device", move.device);
      lesson11_test::first_byte(machine.device.regions, move.device, random.below(6)) ^= bit;
    } else if (where == 1) {
      const auto id = static_cast<int32_t>(1 + random.below(host));
      text_ = fmt::format("block {} of the host is damaged", id);
      if (is_threaded) machine.tier.settle();  // else a thread may be reading it
      const auto block = machine.memory.block(id);
      block[random.below(block.size())] ^= bit;
    } else {
      text_ = "the store has no value";
      if (is_threaded) {
        for (auto& one : machines_) one->tier.settle();
      }
      const auto& values = values_.values();
      if (values.empty()) return;
      const auto pick = [&] { return *std::next(values.begin(), random.below(values.size())); };
      const BlockName name = pick().first;
      std::string value = pick().second.value;
      text_ = "a value is put under another name";
      if (where == 2) {
        value = values.at(name).value;
        char& byte = value[random.below(value.size())];
        byte = static_cast<char>(byte ^ std::to_integer<int>(bit));
        text_ = "a bit of a value is changed";
      } else if (where == 3) {
        value.pop_back();
        text_ = "a value is cut";
      }
      values_.put(name, value);
    }
  }
  void check() const {
    for (const auto& machine : machines_) {
      machine->scheduler.check();
      machine->tier.manager().check();
    }
  }

  lesson11_test::Prefixes prefixes_;
  MemoryStore values_;
  std::atomic<bool> store_is_there_ = true;
  lesson13_test::BadStore store_{values_};
  std::array<std::unique_ptr<Machine>, 2> machines_;
  int64_t next_ = 0;
  std::string text_;
};

}  // namespace

TEST_CASE("random operations: a request that reads a block reads K and V of its own tokens") {
  const int64_t num_ops = kvtest::num_random_ops(1'000'000, 50'000);
  seen = {};
  const auto report = kvtest::search<Run>(num_ops, 200);
  CHECK_MESSAGE(report.empty(), report);
  if (num_ops < 10'000 || !report.empty()) return;
  for (const int64_t count : {seen.put, seen.fetched, seen.hits, seen.damaged, seen.unreachable,
                              seen.checked, seen.not_put, seen.changed_here, seen.aborted_waits}) {
    CHECK(count > num_ops / 10'000);
  }
}
