#include "common/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "common/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kv {
namespace {

using Body = std::function<void(int64_t, int64_t)>;

constexpr int kMaxThreads = 1024;
// A decode step is some hundred short loops: a worker looks this often for the next one before it
// sleeps (about 20 microseconds), as waking a thread costs more than many of these loops.
constexpr int kSpins = 500;
// A thread claims this part of its even share of what is left: large ranges first, and in the end
// small ones, so that no thread is left alone with a large one.
constexpr int64_t kClaimsPerShare = 2;

thread_local bool t_inside_loop = false;  // a loop inside a loop runs inline

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

/// One loop in progress: threads claim ranges until none is left.
struct Loop {
  int64_t n = 0;
  int64_t grain = 1;   // the smallest range
  int64_t claims = 1;  // a range is what is left, divided by this
  const Body* body = nullptr;
  std::atomic<int64_t> next{0};
  std::mutex error_mutex;
  std::exception_ptr error;  // the first one

  void work() {
    t_inside_loop = true;
    for (;;) {
      int64_t begin = next.load(std::memory_order_relaxed);
      int64_t end = 0;
      do {
        end = std::min(n, begin + std::max(grain, (n - begin) / claims));
      } while (begin < n && !next.compare_exchange_weak(begin, end, std::memory_order_relaxed));
      if (begin >= n) break;
      try {
        (*body)(begin, end);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        next.store(n, std::memory_order_relaxed);  // the other ranges are not wanted any more
      }
    }
    t_inside_loop = false;
  }
};

/// num_threads - 1 workers; the thread that calls run() is the last one.
class Pool {
 public:
  explicit Pool(int num_threads) : num_threads_(num_threads) {
    for (int i = 1; i < num_threads; ++i) workers_.emplace_back([this] { serve(); });
  }
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  int num_threads() const { return num_threads_; }

  /// A worker that wakes too late finds no loop and is not waited for.
  void run(Loop& loop) {
    {
      const std::lock_guard lock(mutex_);
      loop_ = &loop;
      generation_.fetch_add(1, std::memory_order_release);
    }
    wake_.notify_all();
    loop.work();
    std::unique_lock lock(mutex_);
    loop_ = nullptr;
    if (active_ == 0) return;
    lock.unlock();
    for (int i = 0; i < kSpins && idle_.load(std::memory_order_acquire) == 0; ++i) pause_briefly();
    lock.lock();
    done_.wait(lock, [this] { return active_ == 0; });
  }

 private:
  void serve() {
    uint64_t seen = 0;
    for (;;) {
      for (int i = 0; i < kSpins && generation_.load(std::memory_order_acquire) == seen; ++i) {
        pause_briefly();
      }
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return generation_.load(std::memory_order_relaxed) != seen; });
      if (stop_) return;
      seen = generation_.load(std::memory_order_relaxed);
      Loop* loop = loop_;
      if (loop == nullptr) continue;
      ++active_;
      idle_.store(0, std::memory_order_relaxed);
      lock.unlock();
      loop->work();
      lock.lock();
      if (--active_ == 0) {
        idle_.store(1, std::memory_order_release);
        done_.notify_one();
      }
    }
  }

  const int num_threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::atomic<uint64_t> generation_{0};  // changes when there is something to look at
  std::atomic<int> idle_{1};             // 1 while active_ is 0
  Loop* loop_ = nullptr;                 // guarded by mutex_, like the rest
  int active_ = 0;                       // workers inside loop_
  bool stop_ = false;
  std::vector<std::thread> workers_;  // last: they use the members above
};

/// The cores that this process may use: a container or taskset may allow fewer than there are.
int allowed_cores() {
#ifdef __EMSCRIPTEN__
  return 1;  // threads in a browser want headers that not every server sends
#else
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return CPU_COUNT(&cores);
  return static_cast<int>(std::thread::hardware_concurrency());  // more than 1,024, or not known
#endif
}

int threads_from_environment() {
  const char* text = std::getenv("KV_THREADS");
  if (text == nullptr || *text == '\0') return std::clamp(allowed_cores(), 1, kMaxThreads);
  const std::string_view value(text);
  int n = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), n);
  if (error != std::errc() || end != value.data() + value.size() || n < 1 || n > kMaxThreads) {
    user_error(
        "KV_THREADS: found '{}', wanted a number of threads from 1 to {}; correct or unset it",
        value, kMaxThreads);
  }
  return n;
}

std::mutex g_pool_mutex;  // held while a loop runs, so that one pool serves one loop at a time
std::unique_ptr<Pool> g_pool;
std::atomic<int> g_num_threads{0};  // 0 means not decided yet

}  // namespace

int num_threads() {
  int n = g_num_threads.load();
  if (n == 0) {
    n = threads_from_environment();
    g_num_threads.store(n);
  }
  return n;
}

void set_num_threads(int n) {
  if (n < 1 || n > kMaxThreads) {
    user_error("threads: found {}, wanted 1 to {}", n, kMaxThreads);
  }
  g_num_threads.store(n);
}

void parallel_for(int64_t n, int64_t grain, const Body& body) {
  if (n <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int threads = num_threads();
  if (t_inside_loop || threads == 1 || n <= grain) {
    body(0, n);
    return;
  }
  const std::unique_lock pool_lock(g_pool_mutex, std::try_to_lock);
  if (!pool_lock.owns_lock()) {  // another thread's loop has the pool
    body(0, n);
    return;
  }
  if (!g_pool || g_pool->num_threads() != threads) {
    g_pool.reset();
    g_pool = std::make_unique<Pool>(threads);
  }
  Loop loop;
  loop.n = n;
  loop.grain = grain;
  loop.claims = threads * kClaimsPerShare;
  loop.body = &body;
  g_pool->run(loop);
  if (loop.error) std::rethrow_exception(loop.error);
}

}  // namespace kv
