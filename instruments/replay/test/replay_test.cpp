// Traces on pools, against models that are slow and simple: a list for LRU and FIFO, and for the
// optimum every way to choose victims.

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "instruments/replay/caches.h"
#include "tests/support/temp_dir.h"

namespace {

using namespace replay;
using Ids = std::vector<uint64_t>;
using Trace = std::vector<Ids>;

/// Paths from the root of a random tree: what prefixes are. Numbers that share their lower bits.
Trace random_trace(std::mt19937& rng, int num_nodes, int num_requests, uint64_t step = 1) {
  std::vector<int> parent{-1};
  for (int node = 1; node < num_nodes; ++node) {
    parent.push_back(rng() % 4 == 0 ? -1 : static_cast<int>(rng() % static_cast<unsigned>(node)));
  }
  Trace trace;
  for (int i = 0; i < num_requests; ++i) {
    Ids ids;
    // The smaller of two numbers: some are asked for more often than others.
    const unsigned nodes = static_cast<unsigned>(num_nodes);
    for (int node = static_cast<int>(std::min(rng() % nodes, rng() % nodes)); node >= 0;
         node = parent[static_cast<size_t>(node)]) {
      ids.push_back(static_cast<uint64_t>(node) * step);
    }
    std::reverse(ids.begin(), ids.end());
    trace.push_back(ids);
  }
  return trace;
}

/// Next uses come from a file.
struct NextUsesOf {
  kvtest::TempDir dir;
  NextUses next;
  explicit NextUsesOf(const Trace& trace) {
    std::ofstream out(dir.path() / "trace.jsonl");
    for (const Ids& ids : trace) {
      out << R"({"block_size": 1, "output_length": 0, "input_length": )" << ids.size()
          << R"(, "hash_ids": [)";
      for (size_t i = 0; i < ids.size(); ++i) out << (i > 0 ? "," : "") << ids[i];
      out << "]}\n";
    }
    out.close();
    TraceReader reader(dir.path() / "trace.jsonl");
    next.make(reader, [](const TraceReader&) { return true; });
  }
};

/// The blocks found, request by request.
std::vector<int64_t> play(Cache& cache, const Trace& trace) {
  std::vector<int64_t> found;
  for (const Ids& ids : trace) {
    found.push_back(cache.run(ids));
    cache.check();
  }
  return found;
}

int64_t total(const std::vector<int64_t>& found) {
  int64_t sum = 0;
  for (const int64_t n : found) sum += n;
  return sum;
}

Ids within(const Ids& ids, size_t num_blocks) {
  return {ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(std::min(ids.size(), num_blocks))};
}

/// A list of what is cached, the next victim first. LRU moves what is used to the end, FIFO only
/// what is stored; both the tail before the head.
std::vector<int64_t> play_on_list(const Trace& trace, size_t num_blocks, bool is_lru) {
  std::vector<uint64_t> list;
  std::vector<int64_t> found;
  const auto has = [](const Ids& ids, uint64_t id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  for (const Ids& all : trace) {
    const Ids ids = within(all, num_blocks);
    const auto missing =
        std::find_if(ids.begin(), ids.end(), [&](uint64_t id) { return !has(list, id); });
    found.push_back(missing - ids.begin());
    for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
      const bool is_new = !has(list, *id);
      if (is_new && list.size() == num_blocks) {
        list.erase(
            std::find_if(list.begin(), list.end(), [&](uint64_t old) { return !has(ids, old); }));
      }
      if (!is_new && is_lru) list.erase(std::find(list.begin(), list.end(), *id));
      if (is_new || is_lru) list.push_back(*id);
    }
  }
  return found;
}

/// The most that can be found, by trying every set of victims at every request.
int64_t best_of_all(const Trace& trace, size_t num_blocks) {
  std::map<std::set<uint64_t>, int64_t> best{{{}, 0}};  // what is cached: found on the best way
  for (const Ids& all : trace) {
    const Ids ids = within(all, num_blocks);
    std::map<std::set<uint64_t>, int64_t> next;
    for (const auto& state : best) {
      const auto missing = std::find_if(ids.begin(), ids.end(),
                                        [&](uint64_t id) { return !state.first.contains(id); });
      const int64_t found = state.second + (missing - ids.begin());
      Ids others;
      for (const uint64_t id : state.first) {
        if (std::find(ids.begin(), ids.end(), id) == ids.end()) others.push_back(id);
      }
      const size_t keep = std::min(others.size(), num_blocks - ids.size());
      for (unsigned choice = 0; choice < 1u << others.size(); ++choice) {
        if (static_cast<size_t>(__builtin_popcount(choice)) != keep) continue;
        std::set<uint64_t> cached(ids.begin(), ids.end());
        for (size_t i = 0; i < others.size(); ++i) {
          if ((choice >> i & 1u) != 0) cached.insert(others[i]);
        }
        int64_t& value = next[cached];
        value = std::max(value, found);
      }
    }
    best = std::move(next);
  }
  int64_t most = 0;
  for (const auto& state : best) most = std::max(most, state.second);
  return most;
}

}  // namespace

TEST_CASE("replay: LRU and FIFO find what a plain list finds, request by request") {
  for (unsigned seed = 0; seed < 60; ++seed) {
    std::mt19937 rng(seed);
    const uint64_t step = seed % 3 == 0 ? 1 : seed % 3 == 1 ? uint64_t{1} << 20 : 0x1234567890123u;
    const Trace trace = random_trace(rng, 4 + static_cast<int>(seed), 200, step);
    for (const int num_blocks : {1, 2, 3, 5, 8, 13, 40}) {
      CAPTURE(seed);
      CAPTURE(num_blocks);
      const auto lru = make_cache(Victim::kLru, num_blocks, 0, nullptr);
      CHECK(play(*lru, trace) == play_on_list(trace, static_cast<size_t>(num_blocks), true));
      const auto fifo = make_cache(Victim::kFifo, num_blocks, 0, nullptr);
      CHECK(play(*fifo, trace) == play_on_list(trace, static_cast<size_t>(num_blocks), false));
    }
  }
}

TEST_CASE("replay: optimal finds as much as the best of all ways to choose victims" *
          doctest::test_suite("sweep")) {
  for (unsigned seed = 0; seed < 150; ++seed) {
    std::mt19937 rng(seed);
    const Trace trace = random_trace(rng, 5 + static_cast<int>(seed % 5), 14);
    const NextUsesOf uses(trace);
    for (const int num_blocks : {1, 2, 3, 4, 6}) {
      CAPTURE(seed);
      CAPTURE(num_blocks);
      const auto optimal = make_cache(Victim::kOptimal, num_blocks, 0, &uses.next);
      CHECK(total(play(*optimal, trace)) == best_of_all(trace, static_cast<size_t>(num_blocks)));
    }
  }
}

TEST_CASE(
    "replay: no policy finds more than optimal, and a pool for everything finds every repeat" *
    doctest::test_suite("sweep")) {
  bool differs = false;
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 rng(seed);
    const Trace trace = random_trace(rng, 60, 800);
    const NextUsesOf uses(trace);
    for (const int num_blocks : {3, 10, 20, 30, 45, 60}) {
      CAPTURE(seed);
      CAPTURE(num_blocks);
      const auto optimal = make_cache(Victim::kOptimal, num_blocks, 0, &uses.next);
      play(*optimal, trace);
      for (const Victim victim : {Victim::kLru, Victim::kFifo, Victim::kRandom}) {
        const auto cache = make_cache(victim, num_blocks, seed, nullptr);
        play(*cache, trace);
        CHECK(cache->counts().found <= optimal->counts().found);
        CHECK(cache->counts().asked == uses.next.num_uses());
        differs |= cache->counts().found < optimal->counts().found;
        if (num_blocks == 60) {
          CHECK(cache->counts().found == uses.next.num_uses() - uses.next.num_different());
          CHECK(cache->counts().evicted == 0);
        }
      }
    }
  }
  CHECK(differs);
}

TEST_CASE("replay: random victims follow the seed") {
  std::mt19937 rng(1);
  const Trace trace = random_trace(rng, 60, 800);
  const auto found = [&](uint64_t seed) {
    return play(*make_cache(Victim::kRandom, 20, seed, nullptr), trace);
  };
  CHECK(found(1) == found(1));
  CHECK(found(1) != found(2));
}

TEST_CASE("replay: block operations and requests longer than the pool are counted") {
  const auto cache = make_cache(Victim::kLru, 3, 0, nullptr);
  CHECK(cache->run(Ids{1, 2}) == 0);  // 1 looked up, 2 taken, stored, freed
  CHECK(cache->counts().operations == 1 + 2 + 2 + 2);
  CHECK(cache->run(Ids{1, 2}) == 2);  // 2 looked up, pinned, freed
  CHECK(cache->counts().operations == 7 + 2 + 2 + 2);
  CHECK(cache->run(Ids{5, 6, 7, 8}) == 0);  // the first 3; 2 are evicted
  CHECK(cache->counts().operations == 13 + 1 + 3 + 2 + 3 + 3);
  CHECK(cache->counts().evicted == 2);
  CHECK(cache->counts().too_long == 1);
  CHECK(cache->counts().asked == 8);
  CHECK(cache->run({}) == 0);
}

// More positions than a piece of the file has, more ids than the first table.
TEST_CASE("replay: next uses are what looking for them from the end gives") {
  std::mt19937 rng(2);
  Trace trace;
  Ids all;
  for (int i = 0; i < 1100; ++i) {
    const uint64_t first = rng() % 200 * 1000;
    Ids ids;
    for (uint64_t id = first; id < first + 1000; ++id) ids.push_back(id);
    all.insert(all.end(), ids.begin(), ids.end());
    trace.push_back(ids);
  }
  const NextUsesOf uses(trace);
  REQUIRE(uses.next.num_uses() == std::ssize(all));
  std::map<uint64_t, int64_t> later;
  int64_t wrong = 0;
  for (int64_t i = std::ssize(all) - 1; i >= 0; --i) {
    const auto place = later.emplace(all[static_cast<size_t>(i)], NextUses::kNever).first;
    wrong += uses.next.after(i) != place->second;
    place->second = i;
  }
  CHECK(wrong == 0);
  CHECK(uses.next.num_different() == std::ssize(later));
}
