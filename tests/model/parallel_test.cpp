#include "common/parallel.h"

#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#include "common/error.h"

namespace {

struct RestoreThreads {
  int before = kv::num_threads();
  ~RestoreThreads() { kv::set_num_threads(before); }
};

}  // namespace

TEST_CASE("parallel_for: every index once, no range below the grain, any number of threads") {
  const RestoreThreads restore;
  for (const int threads : {1, 2, 3, 8}) {
    kv::set_num_threads(threads);
    CHECK(kv::num_threads() == threads);
    for (const int64_t n : {0, 1, 2, 7, 8, 9, 63, 1000}) {
      for (const int64_t grain : {0, 1, 3, 8, 5000}) {
        std::vector<std::atomic<int>> hits(static_cast<size_t>(n));
        std::atomic<bool> too_small{false};
        kv::parallel_for(n, grain, [&](int64_t begin, int64_t end) {
          const bool is_last = end == n;
          if (begin >= end || (!is_last && end - begin < grain)) too_small = true;
          for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
        });
        CHECK(!too_small);
        for (const std::atomic<int>& h : hits) CHECK(h == 1);
      }
    }
  }
}

TEST_CASE("parallel_for: an exception in the body reaches the caller and the pool lives on") {
  const RestoreThreads restore;
  for (const int threads : {1, 2, 4}) {
    kv::set_num_threads(threads);
    for (int round = 0; round < 50; ++round) {
      CHECK_THROWS_WITH_AS(kv::parallel_for(100, 1,
                                            [](int64_t begin, int64_t end) {
                                              if (begin <= 57 && 57 < end) {
                                                throw std::runtime_error("fifty-seven");
                                              }
                                            }),
                           "fifty-seven", std::runtime_error);
      std::atomic<int64_t> sum{0};
      kv::parallel_for(100, 1, [&](int64_t b, int64_t e) { sum += e - b; });
      CHECK(sum == 100);
    }
  }
}

TEST_CASE("parallel_for: a loop inside a loop runs inline") {
  const RestoreThreads restore;
  kv::set_num_threads(4);
  std::atomic<int64_t> sum{0};
  std::atomic<bool> moved{false};
  kv::parallel_for(20, 1, [&](int64_t begin, int64_t end) {
    const std::thread::id here = std::this_thread::get_id();
    for (int64_t i = begin; i < end; ++i) {
      kv::parallel_for(10, 1, [&](int64_t b, int64_t e) {
        if (std::this_thread::get_id() != here) moved = true;
        sum += e - b;
      });
    }
  });
  CHECK(sum == 200);
  CHECK(!moved);
}

TEST_CASE("parallel_for: several threads may run loops at once") {
  const RestoreThreads restore;
  kv::set_num_threads(3);
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        kv::parallel_for(17, 1, [&](int64_t b, int64_t e) { sum += e - b; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(sum == 4 * 200 * 17);
}

TEST_CASE("parallel_for: impossible numbers of threads are refused") {
  CHECK_THROWS_AS(kv::set_num_threads(0), kv::UserError);
  CHECK_THROWS_AS(kv::set_num_threads(-3), kv::UserError);
  CHECK_THROWS_AS(kv::set_num_threads(1 << 20), kv::UserError);
}
