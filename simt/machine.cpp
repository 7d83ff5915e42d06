#include "simt/machine.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "simt/worker.h"

namespace simt {

const Options& options() {
  static const Options instance = [] {
    const auto number = [](const char* name, uint64_t otherwise) {
      const char* text = std::getenv(name);
      return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
    };
#if defined(SIMT_ASAN) || defined(SIMT_TRACE)
    const uint64_t workers = 1;  // here a __shared__ variable exists once: device_words.h
#else
    // Two CTAs race only if two workers ran them.
    const uint64_t cores = kFindsRaces ? 4 : std::thread::hardware_concurrency();
    const uint64_t workers = std::max<uint64_t>(1, number("SIMT_WORKERS", cores));
#endif
    return Options{number("SIMT_SEED", 0), static_cast<unsigned>(workers),
                   number("SIMT_MEMORY", 8) << 30};
  }();
  return instance;
}

namespace {

/// The workers, and the grid they work on.
class Gpu {
 public:
  static Gpu& instance() {
    static Gpu gpu;
    return gpu;
  }

  void run(const Grid& grid) {
    const std::scoped_lock one_launch(launch_mutex_);
    ++num_launches;
    if (!grid.overlaps) wait_for_predecessors();
    release(&launched);
    error_ = nullptr;
    const bool alone = grid.num_ctas() == 1 && !kFindsRaces;
    if (!alone) {
      const std::scoped_lock lock(mutex_);
      grid_ = &grid;
      num_working_ = others_.size();
      ++generation_;
      changed_.notify_all();
    }
    work(grid, 0);
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return alone || num_working_ == 0; });
    if (error_ != nullptr) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  Gpu() {
    for (unsigned w = 1; w < options().workers; ++w) others_.emplace_back([this, w] { loop(w); });
  }
  ~Gpu() {
    {
      const std::scoped_lock lock(mutex_);
      quit_ = true;
      changed_.notify_all();
    }
    for (std::thread& other : others_) other.join();
  }

  void loop(unsigned w) {
    std::unique_lock lock(mutex_);
    for (uint64_t seen = 0;;) {
      changed_.wait(lock, [&] { return quit_ || generation_ != seen; });
      if (quit_) return;
      seen = generation_;
      const Grid& grid = *grid_;
      lock.unlock();
      work(grid, w);
      lock.lock();
      if (--num_working_ == 0) changed_.notify_all();
    }
  }

  /// Number of the worker that runs the i-th CTA: in turns. What one worker runs is ordered, so for
  /// races it is the sum of i's digits, which at each distance tells some pairs of CTAs apart, and
  /// another one than in the launch before.
  static size_t worker_of(size_t i) {
    size_t sum = i;
    if (kFindsRaces) {
      constexpr size_t kBase = 4;
      for (sum = num_launches; i > 0; i /= kBase) sum += i % kBase;
    }
    return sum % options().workers;
  }

  void work(const Grid& grid, size_t w) {
    const size_t n = grid.num_ctas();
    size_t stride = options().seed == 0 ? 1 : options().seed % n + 1;
    while (std::gcd(stride, n) != 1) ++stride;  // then i * stride comes to each CTA
    for (size_t i = 0; i < n; ++i) {
      if (worker_of(i) != w) continue;
      try {
        Worker::here().run_cta(grid, (i * stride + options().seed) % n);
      } catch (...) {
        const std::scoped_lock lock(mutex_);
        if (error_ == nullptr) error_ = std::current_exception();
        return;
      }
    }
  }

  std::mutex launch_mutex_, mutex_;
  std::condition_variable changed_;
  const Grid* grid_ = nullptr;
  uint64_t generation_ = 0;  // of launches of several CTAs
  size_t num_working_ = 0;   // of the others
  bool quit_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> others_;
};

}  // namespace

#ifdef SIMT_ASAN
/// The sanitizers call it when they have found something: whose fault it is.
extern "C" void __asan_on_error() {
  if (in_kernel) std::fprintf(stderr, "simulated GPU: %s\n", name_of_thread().c_str());
}
extern "C" void __ubsan_on_report() { __asan_on_error(); }
#endif

#ifdef SIMT_TSAN  // kernels call it after each branch
extern "C" void __sanitizer_cov_trace_pc() {
  if (in_kernel) ++Worker::here().running().num_steps;
}
#endif

void run(const Grid& grid) { Gpu::instance().run(grid); }
void meet(const Call& call) {
  in_kernel = false;
  Worker::here().meet(call);
  in_kernel = true;
}
void yield() { Worker::here().yield(); }
void sync_two_warps(int number) { Worker::here().sync_two_warps(number); }
unsigned thread_number() { return Worker::here().running().number; }
void* dynamic_shared_bytes() { return Worker::here().shared(); }
void wait_for_predecessors() {
  acquire(&ended[(num_launches + 1) % 2]);
  if (in_kernel) Worker::here().running().waited = true;
}
void host_waits() {
  for (char& each : ended) acquire(&each);
}

void start_copy_16(void* to, const void* from) {
  const Quiet quiet;
  auto& groups = Worker::here().running().copies;
  if (groups.empty()) groups.emplace_back();
  groups.back().push_back({to, from, __builtin_return_address(0)});
}
void commit_copies() {
  const Quiet quiet;
  auto& groups = Worker::here().running().copies;
  groups.resize(std::max<size_t>(groups.size(), 1) + 1);
}
void wait_for_copies(size_t pending_groups) {
  auto& groups = Worker::here().running().copies;
  while (groups.size() > pending_groups + 1) {
    for (const Thread::Copy& copy : groups.front()) {
      static constexpr std::array<char, 16> kZeros{};
      if (copy.from != nullptr) reads_16(copy.from, copy.pc);
      writes_16(copy.to, copy.pc);
      std::memcpy(copy.to, copy.from != nullptr ? copy.from : kZeros.data(), 16);
    }
    const Quiet quiet;
    groups.erase(groups.begin());
  }
}

}  // namespace simt
