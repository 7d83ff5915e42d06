// Tests of a thread that does jobs.

#include "common/job_thread.h"

#include <doctest/doctest.h>

#include <semaphore>
#include <stdexcept>
#include <vector>

using kv::JobThread;
using kv::RunJobs;

namespace {

std::vector<int> all_done(JobThread<int>& thread) {
  std::vector<int> done;
  while (!thread.idle()) {
    thread.wait(std::chrono::seconds(10));
    for (auto one = thread.take_done(); !one.empty(); one = thread.take_done()) {
      done.push_back(one.front());
    }
  }
  return done;
}

}  // namespace

TEST_CASE("jobs are done in their order, urgent ones first, and one that throws ends alone") {
  std::binary_semaphore begun(0), may_go(0);
  JobThread<int> thread(RunJobs::kThread, [&](int& job) {
    if (job == 1) begun.release(), may_go.acquire();
    if (job == 3) throw std::runtime_error("job 3");
    job *= 10;
  });
  thread.start({1, 2, 3});
  begun.acquire();
  thread.start({4});
  thread.start_urgent({5, 6});
  thread.wait(std::chrono::milliseconds(1));  // not longer
  CHECK_FALSE(thread.idle());
  CHECK(thread.take_done().empty());
  may_go.release();
  CHECK(all_done(thread) == std::vector{10, 50, 60, 20, 3, 40});
}

TEST_CASE("without a thread start() does the jobs") {
  JobThread<int> thread(RunJobs::kAtOnce, [](int& job) { job *= 10; });
  thread.start({1, 2});
  thread.start_urgent({3});
  CHECK_FALSE(thread.idle());
  CHECK(all_done(thread) == std::vector{10, 20, 30});
  CHECK(thread.idle());
  thread.wait(std::chrono::seconds(10));  // there is none to wait for
}

TEST_CASE("a thread that ends waits for the job in flight, and forgets the others") {
  std::binary_semaphore begun(0);
  std::vector<int> done;
  {
    JobThread<int> thread(RunJobs::kThread, [&](int job) {
      begun.release();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      done.push_back(job);
    });
    thread.start({1, 2});
    begun.acquire();
  }
  CHECK(done == std::vector{1});
}
