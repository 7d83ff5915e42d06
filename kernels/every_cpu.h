#pragma once

// Functions that are compiled for several instruction sets; the one that fits is chosen when the
// program starts. All give the same bits: multiply and add stay two operations (-ffp-contract=off).

#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FOR_EVERY_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#define FOR_CPU(name) __attribute__((target(name)))
#define SEVERAL_CPUS 1
#else
#define FOR_EVERY_CPU
#define FOR_CPU(name)
#endif
#define ALWAYS_INLINE inline __attribute__((always_inline))
#pragma GCC diagnostic ignored "-Wunused-function"  // clang sees no call of what other CPUs need
