#include "simt/exchange.h"

#include <atomic>
#include <bit>
#include <cstring>

#include "simt/fiber.h"

// The last lane to come does it for all.

namespace simt {

namespace {

/// How many arrivals are to come in each phase, how many have, and the phase.
struct Mbarrier {
  uint16_t expected, arrived;
  uint32_t phase;
};
static_assert(sizeof(Mbarrier) == sizeof(uint64_t));

float bf16_at(uint32_t pair, int half) {
  return std::bit_cast<float>(half == 0 ? pair << 16 : pair & 0xFFFF0000u);
}

}  // namespace

uint64_t shuffle_bits(const char* name, unsigned mask, uint64_t bits, unsigned source,
                      Where where) {
  struct Operand {
    uint64_t bits;
    unsigned source;
  } mine{bits, source};
  const auto exchange = [](void* const* operands, unsigned lanes) {
    std::array<uint64_t, 32> values;
    values.fill(~uint64_t{0});
    for_each_lane(lanes, [&](size_t l) { values[l] = static_cast<Operand*>(operands[l])->bits; });
    for_each_lane(lanes, [&](size_t l) {
      auto& operand = *static_cast<Operand*>(operands[l]);
      operand.bits = values[operand.source % 32];
    });
  };
  meet({name, where, mask, &mine, exchange, /*orders_memory=*/false});
  return mine.bits;
}

std::array<uint64_t, 32> gather(const char* name, unsigned mask, uint64_t bits, Where where) {
  struct Operand {
    uint64_t bits;
    std::array<uint64_t, 32> all{};
  } mine{bits};
  const auto exchange = [](void* const* operands, unsigned lanes) {
    for_each_lane(lanes, [&](size_t to) {
      for_each_lane(lanes, [&](size_t from) {
        static_cast<Operand*>(operands[to])->all[from] =
            static_cast<Operand*>(operands[from])->bits;
      });
    });
  };
  meet({name, where, mask, &mine, exchange, /*orders_memory=*/false});
  return mine.all;
}

void fence() {
  static char everyone;
  release(&everyone);
  acquire(&everyone);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, Where where) {
  struct Operand {
    float* d;
    uint32_t a[4], b[2];
  } mine{d, {a[0], a[1], a[2], a[3]}, {b0, b1}};
  const auto exchange = [](void* const* operands, unsigned) {
    float A[16][16], B[16][8];
    for (int lane = 0; lane < 32; ++lane) {
      const auto& o = *static_cast<const Operand*>(operands[lane]);
      const int g = lane / 4, t = lane % 4;
      for (int r = 0; r < 4; ++r) {
        for (int h = 0; h < 2; ++h) A[g + r % 2 * 8][2 * t + h + r / 2 * 8] = bf16_at(o.a[r], h);
      }
      for (int r = 0; r < 2; ++r) {
        for (int h = 0; h < 2; ++h) B[2 * t + h + r * 8][g] = bf16_at(o.b[r], h);
      }
    }
    for (int row = 0; row < 16; ++row) {
      float sums[8] = {};
      for (int k = 0; k < 16; ++k) {
        for (int col = 0; col < 8; ++col) sums[col] += A[row][k] * B[k][col];
      }
      for (int col = 0; col < 8; ++col) {
        static_cast<const Operand*>(operands[row % 8 * 4 + col / 2])->d[row / 8 * 2 + col % 2] +=
            sums[col];
      }
    }
  };
  meet({"mma.m16n8k16", where, ~0u, &mine, exchange, /*orders_memory=*/false});
}

void load_matrices(uint32_t (&r)[4], const void* row, bool transposed, Where where) {
  struct Operand {
    uint32_t* r;
    const void* row;
    bool transposed;
  } mine{r, row, transposed};
  reads_16(row, __builtin_return_address(0));
  const auto exchange = [](void* const* operands, unsigned) {
    for (int matrix = 0; matrix < 4; ++matrix) {
      uint16_t m[8][8];
      for (int i = 0; i < 8; ++i) {
        std::memcpy(m[i], static_cast<const Operand*>(operands[8 * matrix + i])->row, 16);
      }
      for (int lane = 0; lane < 32; ++lane) {
        const auto& o = *static_cast<const Operand*>(operands[lane]);
        const int g = lane / 4, t = lane % 4;
        const uint32_t low = o.transposed ? m[2 * t][g] : m[g][2 * t];
        const uint32_t high = o.transposed ? m[2 * t + 1][g] : m[g][2 * t + 1];
        o.r[matrix] = low | high << 16;
      }
    }
  };
  meet({"ldmatrix", where, ~0u, &mine, exchange, /*orders_memory=*/false});
}

void init_mbarrier(uint64_t* barrier, int arrivals) {
  *barrier = std::bit_cast<uint64_t>(Mbarrier{static_cast<uint16_t>(arrivals), 0, 0});
}
void arrive_with_copies(uint64_t* barrier) {
  commit_copies();
  wait_for_copies(0);
  release(barrier);
  auto state = std::bit_cast<Mbarrier>(*barrier);
  if (++state.arrived == state.expected) {
    state.arrived = 0;
    ++state.phase;
  }
  *barrier = std::bit_cast<uint64_t>(state);
}
void wait_for_phase(uint64_t* barrier, int parity) {
  while ((std::bit_cast<Mbarrier>(*barrier).phase & 1) == static_cast<uint32_t>(parity)) yield();
  acquire(barrier);
}

}  // namespace simt
