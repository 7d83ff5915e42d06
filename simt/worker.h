#pragma once

// A worker runs CTAs, one at a time. It chooses the thread that runs, lets threads wait for each
// other, and reports threads that never meet.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "simt/fiber.h"
#include "simt/machine.h"

namespace simt {

// --- what orders memory, for the thread sanitizer. The host releases `launched`, and a kernel's
// threads acquire it. Kernel k's threads release ended[k % 2] when they end, and acquire the other
// one in wait_for_predecessors(): their own would order them among themselves. For a kernel that is
// launched plainly the host acquires it: then that kernel and all after it see what came before.

inline char launched = 0;
inline std::array<char, 2> ended{};
inline uint64_t num_launches = 0;

struct Thread {
  uint3 index{};
  unsigned number = 0;
  Fiber* fiber = nullptr;      // null: has not begun
  const Call* call = nullptr;  // null: does not wait
  bool ended = false;
  bool waited = false;     // for the kernels before its own
  uint64_t num_steps = 0;  // from branch to branch, counted where races are looked for
  struct Copy {
    void* to;
    const void* from;
    void* pc;  // where it was started
  };
  std::vector<std::vector<Copy>> copies;  // groups; the last one is open
};

struct Warp {
  unsigned alive = 0;    // lanes that have not ended
  unsigned waiting = 0;  // lanes in a call with a mask
  unsigned num_syncs = 0;
  std::array<char, 2> syncs{};  // in turns: the next meeting begins before all have left this one
};

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// The running thread's, in reports.
inline std::string name_of_thread() {
  const auto of = [](const uint3& i) { return text("(", i.x, ",", i.y, ",", i.z, ")"); };
  return text("CTA ", of(blockIdx), " thread ", of(threadIdx), ", launch ", num_launches);
}

/// What the CTAs of each kernel have shown: thread 0 did more than all others, or it did not.
struct Shares {
  struct Seen {
    bool alone = false, shared = false;
  };
  std::mutex mutex;
  std::map<const void*, Seen> of;
  ~Shares() {
    for (const auto& [kernel, seen] : of) {
      if (!seen.alone || seen.shared) continue;
      std::printf("(!) In a kernel thread 0 does most of the work: right, but slow.\n");
    }
  }
};

/// Runs CTAs, one at a time, on the OS thread that it belongs to.
class Worker {
 public:
  static Worker& here() {
    static constinit thread_local Worker* found = nullptr;  // quicker than asking if it exists
    if (found == nullptr) {
      static thread_local Worker worker;
      found = &worker;
    }
    return *found;
  }
  Thread& running() { return *thread_; }
  void* shared() const { return shared_; }

  void run_cta(const Grid& grid, size_t cta) {
    begin(grid, cta);
    go_on();  // comes back when all have ended or none can go on
    if (observer != nullptr) observer->on_cta_end();
    if (error_ == nullptr && num_alive_ > 0) fail("deadlock");
    if (error_ == nullptr) return note_shares();
    for (Fiber& fiber : fibers_) fiber.rewind();  // some were left in the middle
    std::rethrow_exception(std::exchange(error_, nullptr));
  }

  void meet(const Call& call) {
    const Quiet quiet;
    Thread& me = *thread_;
    Warp& warp = warp_of(me);
    void* const sync = call.mask == 0 ? &syncs_[num_syncs_ % 2] : &warp.syncs[warp.num_syncs % 2];
    if (call.orders_memory) release(sync);
    me.call = &call;
    if (call.mask == 0) {
      ++num_waiting_;
    } else {
      if ((call.mask & bit(me)) == 0) give_up("the mask leaves out the lane that calls");
      if ((call.mask & ~warp.alive) != 0) give_up("the mask names a lane that has ended");
      warp.waiting |= bit(me);
    }
    if (!complete(call)) leave();
    if (call.orders_memory) acquire(sync);
  }

  void yield() {
    const Quiet quiet;
    make_ready(*thread_);
    leave();
  }

  void sync_two_warps(int number) {
    release(&arrived_[number]);
    ++arrived_[number];
    while (arrived_[number] < 64) yield();
    acquire(&arrived_[number]);
  }

 private:
  static unsigned bit(const Thread& thread) { return 1u << thread.number % 32; }
  Warp& warp_of(const Thread& thread) { return warps_[thread.number / 32]; }

  void note_shares() const {
    const auto [least, most] = std::ranges::minmax_element(threads_, {}, &Thread::num_steps);
    const uint64_t idle = least->num_steps, more = most->num_steps - idle;
    if (threads_.size() < 32 || most->num_steps < 100) return;  // little to share
    uint64_t all = 0;
    for (const Thread& thread : threads_) all += thread.num_steps - idle;
    static Shares shares;
    const std::scoped_lock lock(shares.mutex);
    Shares::Seen& seen = shares.of[grid_->kernel];
    seen.shared |= 2 * more <= all || more <= idle || most->number > 0;
    seen.alone |= !seen.shared && more > 12 * idle;
  }

  void begin(const Grid& grid, size_t cta) {
    const Quiet quiet;
    grid_ = &grid;
    ++num_ctas_;
    gridDim = grid.size;
    blockDim = grid.block;
    const size_t row = cta / grid.size.x;
    blockIdx = {static_cast<unsigned>(cta % grid.size.x), static_cast<unsigned>(row % grid.size.y),
                static_cast<unsigned>(row / grid.size.y)};
    num_alive_ = static_cast<unsigned>(grid.num_threads());
    num_waiting_ = 0;
    arrived_ = {};
    random_ = options().seed == 0 ? 0 : options().seed * (cta + 1) | 1;
    // In turns, so that thread i of this CTA is another fiber than thread i of the one before: to
    // the thread sanitizer a fiber is a thread, and orders what it does. With more of them than
    // threads, a report also names rightly who wrote some CTAs ago.
    const size_t wanted = std::max<size_t>(num_alive_ + 1, kFindsRaces ? 160 : 0);
    while (fibers_.size() < wanted) fibers_.emplace_back(&first, fibers_.size());
    free_.clear();
    for (size_t i = fibers_.size(); i-- > 0;) {
      free_.push_back(&fibers_[(i + first_fiber_) % fibers_.size()]);
    }
    first_fiber_ = (first_fiber_ + num_alive_) % fibers_.size();
    threads_.assign(num_alive_, {});
    warps_.assign((num_alive_ + 31) / 32, {});
    num_ready_ = 0;
    for (unsigned i = 0; i < num_alive_; ++i) {
      Thread& thread = threads_[i];
      thread.number = i;
      thread.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
      warp_of(thread).alive |= bit(thread);
      make_ready(thread);
    }
    if (shared_bytes_ != grid.shared_bytes) {  // exact, so that a sanitizer knows where it ends
      std::free(std::exchange(shared_, nullptr));
      shared_bytes_ = grid.shared_bytes;
      if (posix_memalign(&shared_, 128, shared_bytes_) != 0) throw std::bad_alloc();
    }
    if (shared_bytes_ > 0) std::memset(shared_, 0xFF, shared_bytes_);  // NaN is noticed
    if (observer != nullptr) observer->on_cta(grid, shared_);
    release(&begun_);
  }

  /// Every fiber's first function: runs threads, one after the other.
  static void first() {
    Worker& worker = here();
    worker.thread_->fiber->arrived(&worker.home_);
    for (;;) worker.run_thread();
  }

  /// What a kernel's variables hold before they are set, where they are in memory: NaN, or -1.
  static __attribute__((noinline)) void fill_stack() {
    volatile uint64_t below[2048];
    for (volatile uint64_t& word : below) word = ~uint64_t{};
  }

  void run_thread() {
    if (kFindsRaces) {
      const Quiet quiet;
      thread_->fiber->set_name(name_of_thread().c_str());
    }
    acquire(&launched);
    acquire(&begun_);
    acquire(&ctas_[(num_ctas_ + 1) % 2]);  // the CTA before had the same shared memory
#ifdef SIMT_ASAN
    fill_stack();
#endif
    in_kernel = true;
    try {
      grid_->call(grid_->arguments);
    } catch (...) {
      error_ = std::current_exception();
    }
    in_kernel = false;
    if (error_ == nullptr && grid_->overlaps && !thread_->waited && !kFindsRaces) {
      error_ = std::make_exception_ptr(
          Error(name_of_thread() + " ends without kv::wait_for_predecessors(). Every path waits, " +
                "also that of a thread with nothing to do (kernels/launch.cuh, rule 3)"));
    }
    release(&ctas_[num_ctas_ % 2]);
    release(&ended[num_launches % 2]);
    end_thread();
  }

  void end_thread() {
    const Quiet quiet;
    Thread& me = *thread_;
    if (error_ == nullptr) {
      me.ended = true;
      --num_alive_;
      Warp& warp = warp_of(me);
      warp.alive &= ~bit(me);
      if (num_waiting_ > 0) fail("not every thread comes to __syncthreads()");
    }
    // This fiber is free. A thread that has not begun may begin here at once, unless races are
    // looked for: then each has its own.
    Fiber& mine = *me.fiber;
    me.fiber = nullptr;
    free_.insert(free_.begin(), &mine);
    Thread* const next = error_ == nullptr ? take_ready() : nullptr;
    if (next != nullptr && next->fiber == nullptr && !kFindsRaces) {
      free_.erase(free_.begin());
      next->fiber = &mine;
      resume(*next);
    } else {
      switch_from(mine, next);
    }
  }

  /// If all that `call` names have come: does its exchange, and lets them go on.
  bool complete(const Call& call) {
    if (call.mask == 0) {
      if (num_alive_ < threads_.size()) give_up("not every thread comes to __syncthreads()");
      if (num_waiting_ < num_alive_) return false;
      num_waiting_ = 0;
      ++num_syncs_;
      if (observer != nullptr) observer->on_sync_threads();
      for (Thread& thread : threads_) let_go(thread);
      return true;
    }
    Warp& warp = warp_of(*thread_);
    if ((warp.waiting & call.mask) != call.mask) return false;
    std::array<void*, 32> operands{};
    Thread* const lanes = &threads_[thread_->number / 32 * 32];
    for_each_lane(call.mask, [&](size_t lane) {
      const Call& theirs = *lanes[lane].call;
      if (theirs.mask != call.mask ||
          (theirs.name != call.name && std::strcmp(theirs.name, call.name) != 0)) {
        give_up("lanes of a warp meet in different calls");
      }
      operands[lane] = theirs.operand;
    });
    if (call.exchange != nullptr) call.exchange(operands.data(), call.mask);
    warp.waiting &= ~call.mask;
    ++warp.num_syncs;
    if (observer != nullptr && call.mask == ~0u) observer->on_sync_warp(thread_->number / 32);
    for_each_lane(call.mask, [&](size_t lane) { let_go(lanes[lane]); });
    return true;
  }
  void let_go(Thread& thread) {
    thread.call = nullptr;
    if (&thread != thread_) make_ready(thread);
  }

  // --- who runs

  void make_ready(Thread& thread) {
    ready_[(first_ready_ + num_ready_++) % ready_.size()] = &thread;
  }
  Thread* take_ready() {
    if (num_ready_ == 0) return nullptr;
    Thread*& first = ready_[first_ready_];
    if (random_ != 0) {
      random_ = random_ * 6364136223846793005u + 1442695040888963407u;
      std::swap(first, ready_[(first_ready_ + (random_ >> 33) % num_ready_) % ready_.size()]);
    }
    first_ready_ = (first_ready_ + 1) % ready_.size();
    --num_ready_;
    return first;
  }
  void resume(Thread& thread) {
    thread_ = &thread;
    threadIdx = thread.index;
  }
  void leave() { switch_from(*thread_->fiber, take_ready()); }
  void go_on() { switch_from(home_, take_ready()); }
  /// To the next thread, or home if there is none.
  void switch_from(Fiber& from, Thread* next) {
    in_kernel = false;
    if (next == nullptr) {
      from.switch_to(home_);
    } else {
      if (next->fiber == nullptr) {
        next->fiber = free_.back();
        free_.pop_back();
      }
      resume(*next);
      if (next->fiber != &from) from.switch_to(*next->fiber);
    }
    in_kernel = &from != &home_;
  }

  // --- when it goes wrong

  [[noreturn]] void give_up(const char* why) {
    fail(why);
    thread_->fiber->switch_to(home_);
    std::abort();  // a fiber that was given up is started over
  }
  /// Tells what every thread of the CTA was doing; threads that do the same stand together.
  void fail(const char* why) {
    const auto doing = [](const Thread& t) -> std::string {
      if (t.ended) return "ended";
      if (t.call == nullptr) return t.fiber == nullptr ? "not begun" : "could go on";
      return text("waiting in ", t.call->name, ", ", t.call->where.file, ":", t.call->where.line);
    };
    std::map<std::string, std::string> numbers;
    for (size_t begin = 0, end = 0; begin < threads_.size(); begin = end) {
      const std::string what = doing(threads_[begin]);
      while (end < threads_.size() && doing(threads_[end]) == what) ++end;
      std::string& list = numbers[what];
      list += text(list.empty() ? "" : ", ", begin);
      if (end - begin > 1) list += text("-", end - 1);
    }
    std::string all = text(why, ", CTA (", blockIdx.x, ",", blockIdx.y, ",", blockIdx.z, ")");
    for (const auto& [what, list] : numbers) all += text("\n  thread ", list, ": ", what);
    error_ = std::make_exception_ptr(Error(all));
  }

  const Grid* grid_ = nullptr;
  uint64_t num_ctas_ = 0;  // begun so far
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  Thread* thread_ = nullptr;         // the one that runs
  std::array<Thread*, 1024> ready_;  // a ring: a CTA has no more threads
  size_t first_ready_ = 0, num_ready_ = 0;
  uint64_t random_ = 0;  // 0: in order
  unsigned num_alive_ = 0;
  unsigned num_waiting_ = 0;  // in __syncthreads()
  unsigned num_syncs_ = 0;
  std::array<unsigned, 16> arrived_{};  // threads in sync_two_warps(), at each number
  void* shared_ = nullptr;              // dynamic
  size_t shared_bytes_ = 0;
  std::exception_ptr error_;
  Fiber home_;  // who calls run_cta()
  std::deque<Fiber> fibers_;
  size_t first_fiber_ = 0;  // of the next CTA
  std::deque<Fiber*> free_;
  std::array<char, 2> syncs_{}, ctas_{};  // for release() and acquire()
  char begun_ = 0;                        // the same: when a CTA's memory is made
};

}  // namespace simt
