#include "simt/fiber.h"

#include <sys/mman.h>

#include <new>

#if defined(SIMT_TSAN)
#include <sanitizer/tsan_interface.h>
extern "C" void __tsan_read16_pc(const void*, void*);
extern "C" void __tsan_write16_pc(void*, void*);
extern "C" void AnnotateIgnoreReadsBegin(const char*, int);
extern "C" void AnnotateIgnoreReadsEnd(const char*, int);
extern "C" void AnnotateIgnoreWritesBegin(const char*, int);
extern "C" void AnnotateIgnoreWritesEnd(const char*, int);
#elif defined(SIMT_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

/// Stores the stack pointer in *save and goes on where `load` was stored. On a new fiber's stack
/// stand zeros for the registers that calls keep, and the address of its first function.
extern "C" void simt_switch(void** save, void* load);
#if defined(__x86_64__)
asm(R"(
  .text
  .type simt_switch, @function
simt_switch:
  push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp; pop %rcx
  jmp *%rcx
  .size simt_switch, . - simt_switch
)");
static constexpr int kSavedWords = 8;  // six registers, the address, and a null to return to
static constexpr int kFirstWord = 6;
#elif defined(__aarch64__)
asm(R"(
  .text
  .type simt_switch, @function
simt_switch:
  stp x29, x30, [sp, #-160]!
  stp x19, x20, [sp, #16];  stp x21, x22, [sp, #32];   stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64];  stp x27, x28, [sp, #80];   stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]; stp d12, d13, [sp, #128];  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #16];  ldp x21, x22, [sp, #32];   ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64];  ldp x27, x28, [sp, #80];   ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]; ldp d12, d13, [sp, #128];  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #160
  ret
  .size simt_switch, . - simt_switch
)");
static constexpr int kSavedWords = 20;
static constexpr int kFirstWord = 1;
#else
#error "simt_switch is written for x86-64 and aarch64 only"
#endif

namespace simt {

Fiber::Fiber(void (*first)(), size_t number) : first_(first), shift_(number % 61 * 64) {
  memory_ = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory_ == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory_, kGuardBytes, PROT_NONE);
  rewind();
}

Fiber::~Fiber() {
  if (memory_ != nullptr) munmap(memory_, kGuardBytes + kStackBytes);
}

void Fiber::rewind() {
#ifdef SIMT_ASAN
  __asan_unpoison_memory_region(stack(), kStackBytes);
  fake_stack_ = nullptr;
#endif
  auto** const top = reinterpret_cast<void**>(stack() + kStackBytes - shift_) - kSavedWords;
  for (int i = 0; i < kSavedWords; ++i) top[i] = nullptr;
  top[kFirstWord] = reinterpret_cast<void*>(first_);
  sp_ = top;
#ifdef SIMT_TSAN
  tsan_ = __tsan_create_fiber(0);
#endif
}

void Fiber::switch_to(Fiber& to) {
#ifdef SIMT_ASAN
  const bool is_home = to.memory_ == nullptr;
  __sanitizer_start_switch_fiber(&fake_stack_, is_home ? to.home_stack_ : to.stack(),
                                 is_home ? to.home_bytes_ : kStackBytes);
#endif
#ifdef SIMT_TSAN
  if (tsan_ == nullptr) tsan_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.tsan_, __tsan_switch_to_fiber_no_sync);
#endif
  simt_switch(&sp_, to.sp_);
  arrived(nullptr);
}

void Fiber::arrived([[maybe_unused]] Fiber* home) {
#ifdef SIMT_ASAN
  const void* bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &bytes);
  if (home != nullptr && home->home_stack_ == nullptr) {  // else it came from another fiber
    home->home_stack_ = bottom;
    home->home_bytes_ = bytes;
  }
#endif
}

void Fiber::set_name([[maybe_unused]] const char* name) {
#ifdef SIMT_TSAN
  __tsan_set_fiber_name(tsan_, name);
#endif
}

#ifdef SIMT_TSAN
void release(void* at) { __tsan_release(at); }
void acquire(void* at) { __tsan_acquire(at); }
void reads_16(const void* at, void* pc) { __tsan_read16_pc(at, pc); }
void writes_16(void* at, void* pc) { __tsan_write16_pc(at, pc); }
Quiet::Quiet() {
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
Quiet::~Quiet() {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#else
void release(void*) {}
void acquire(void*) {}
void reads_16(const void*, void*) {}
void writes_16(void*, void*) {}
Quiet::Quiet() = default;
Quiet::~Quiet() = default;
#endif

}  // namespace simt
