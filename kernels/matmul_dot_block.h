// The inner part of the CPU matmul, for the instruction set of the file that includes it (hence no
// include guard). That file defines, in an unnamed namespace:
//
//   Vec16                     16 fp32 lanes: zero(), load(T*) of float, BFloat16 or Half, store()
//   fma(a, b, c)              a * b + c with one rounding, per lane
//   sum(a)                    lane i + lane i + 8, then + 4, then + 2, then + 1
//   sum4(a, out)              out[i] = sum(a[i]) for i from 0 to 3
//   kTileRows, kTileCols      accumulators held in registers for many rows
//   kOneRowCols               weight rows read side by side for one row
//
// Every output element is one Vec16 that runs over K in ascending steps of 16, then sum(). How
// elements are grouped into tiles, and when an accumulator is parked in memory, leaves no trace.

namespace kv {
namespace {

constexpr int kLanes = 16;

/// 16 elements from p[begin], of which those from `end` on count as zero.
template <typename T>
inline Vec16 load_tail(const T* p, int begin, int end) {
  T padded[kLanes] = {};
  for (int i = begin; i < end; ++i) padded[i - begin] = p[i];
  return Vec16::load(padded);
}

/// out[i] = sum(acc[i])
template <int n>
inline void sums(const Vec16* acc, float* out) {
  constexpr int kFours = n - n % 4;
#pragma GCC unroll 8
  for (int i = 0; i < kFours; i += 4) sum4(acc + i, out + i);
#pragma GCC unroll 8
  for (int i = kFours; i < n; ++i) out[i] = sum(acc[i]);
}

/// One row of x against kCols rows of w. Bound by reading w, so w is read as it is stored, once.
/// Its rows lie one after the other, so the rows of the next tiles are asked for ahead of time: a
/// CPU that has to find out by itself which streams there are starts over with each tile.
template <int kCols, typename T>
inline void one_row_tile(const DotBlock& block, const T* w, float* y) {
  const int k = block.k;
  const int whole = k - k % kLanes;
  constexpr int kStepBytes = kCols * kLanes * static_cast<int>(sizeof(T));
  constexpr int kBytesAhead = 8192;
  const char* ahead = reinterpret_cast<const char*>(w) + kBytesAhead;
  Vec16 acc[kCols];
#pragma GCC unroll 8
  for (int c = 0; c < kCols; ++c) acc[c] = Vec16::zero();
  for (int i = 0; i < whole; i += kLanes) {
#pragma GCC unroll 8
    for (int at = 0; at < kStepBytes; at += 64) __builtin_prefetch(ahead + at, 0, 2);
    ahead += kStepBytes;
    const Vec16 x = Vec16::load(block.x + i);
#pragma GCC unroll 8
    for (int c = 0; c < kCols; ++c) {
      acc[c] = fma(x, Vec16::load(w + static_cast<int64_t>(c) * k + i), acc[c]);
    }
  }
  if (whole < k) {
    const Vec16 x = Vec16::load(block.x + whole);
#pragma GCC unroll 8
    for (int c = 0; c < kCols; ++c) {
      acc[c] = fma(x, load_tail(w + static_cast<int64_t>(c) * k, whole, k), acc[c]);
    }
  }
  sums<kCols>(acc, y);
}

template <typename T>
inline void one_row(const DotBlock& block) {
  const T* w = static_cast<const T*>(block.w);
  int col = 0;
  for (; col + kOneRowCols <= block.num_cols; col += kOneRowCols) {
    one_row_tile<kOneRowCols>(block, w + static_cast<int64_t>(col) * block.k, block.y + col);
  }
  for (; col < block.num_cols; ++col) {
    one_row_tile<1>(block, w + static_cast<int64_t>(col) * block.k, block.y + col);
  }
}

/// Unpacks w[0 .. num_cols)[k_begin .. k_end) to fp32 as panel[step][kTileCols][16]; columns past
/// num_cols and inputs past k_end are zero.
template <typename T>
inline void unpack_panel(const T* w, int k, int num_cols, int k_begin, int k_end, float* panel) {
  for (int c = 0; c < kTileCols; ++c) {
    float* out = panel + c * kLanes;
    const T* row = w + static_cast<int64_t>(c) * k;
    const int end = c < num_cols ? k_end : k_begin;
    int i = k_begin;
#pragma GCC unroll 4
    for (; i + kLanes <= end; i += kLanes, out += kTileCols * kLanes)
      Vec16::load(row + i).store(out);
    if (i < end) {
      load_tail(row, i, end).store(out);
      i += kLanes, out += kTileCols * kLanes;
    }
    for (; i < k_end; i += kLanes, out += kTileCols * kLanes) Vec16::zero().store(out);
  }
}

/// acc[kRows][kTileCols] += rows of x times the panel, over `steps` steps of 16.
/// `parked` holds the accumulators between pieces of K, [kRows][kTileCols][16].
template <int kRows>
inline void tile(const float* x, int64_t x_stride, const float* panel, int steps, bool first,
                 bool last, float* parked, float* y, int64_t y_stride, int num_cols) {
  Vec16 acc[kRows][kTileCols];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kTileCols; ++c) {
      acc[r][c] = first ? Vec16::zero() : Vec16::load(parked + (r * kTileCols + c) * kLanes);
    }
  }
  for (int step = 0; step < steps; ++step) {
    Vec16 w[kTileCols];
#pragma GCC unroll 8
    for (int c = 0; c < kTileCols; ++c) w[c] = Vec16::load(panel + c * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec16 row = Vec16::load(x + r * x_stride);
#pragma GCC unroll 8
      for (int c = 0; c < kTileCols; ++c) acc[r][c] = fma(row, w[c], acc[r][c]);
    }
    panel += kTileCols * kLanes;
    x += kLanes;
  }
  if (!last) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < kTileCols; ++c) acc[r][c].store(parked + (r * kTileCols + c) * kLanes);
    }
    return;
  }
  float results[kRows * kTileCols];
  sums<kRows * kTileCols>(&acc[0][0], results);
  for (int r = 0; r < kRows; ++r) {
    const float* row = results + r * kTileCols;
    if (num_cols == kTileCols) {
      __builtin_memcpy(y + r * y_stride, row, kTileCols * sizeof(float));
    } else {
      for (int c = 0; c < num_cols; ++c) y[r * y_stride + c] = row[c];
    }
  }
}

/// Multiplies all rows of the block by one piece of a panel. Meanwhile prefetches the `next_bytes`
/// of W that are unpacked next, because unpacking would wait for the memory.
inline void panel_times_rows(const DotBlock& block, const float* panel, int k_begin, int k_end,
                             float* parked, float* y, int num_cols, const char* next,
                             int64_t next_bytes) {
  const int steps = (k_end - k_begin + kLanes - 1) / kLanes;
  const bool first = k_begin == 0;
  const bool last = k_end == block.k;
  int row = 0;
  int64_t asked = 0;  // bytes
  const auto run = [&]<int kRows>() {
    tile<kRows>(block.x + row * block.x_stride + k_begin, block.x_stride, panel, steps, first, last,
                parked + static_cast<int64_t>(row) * kTileCols * kLanes, y + row * block.y_stride,
                block.y_stride, num_cols);
    row += kRows;
    for (const int64_t due = next_bytes * row / block.num_rows; asked < due; asked += 64) {
      __builtin_prefetch(next + asked, 0, 3);
    }
  };
  while (row + kTileRows <= block.num_rows) run.template operator()<kTileRows>();
  if (kTileRows > 2 && row + 2 <= block.num_rows) run.template operator()<2>();
  while (row < block.num_rows) run.template operator()<1>();
}

template <typename T>
inline void many_rows(const DotBlock& block) {
  float* panel = block.scratch;
  float* parked = block.scratch + kMaxPanelCols * kPanelK;
  const auto cols_from = [](int col, int end) {
    return end - col < kTileCols ? end - col : kTileCols;
  };
  for (int col = 0; col < block.num_cols; col += kTileCols) {
    const T* w = static_cast<const T*>(block.w) + static_cast<int64_t>(col) * block.k;
    const int cols = cols_from(col, block.num_cols);
    const int next_cols = cols_from(col + kTileCols, block.num_w_rows);
    for (int k_begin = 0; k_begin < block.k; k_begin += kPanelK) {
      const int k_end = block.k - k_begin < kPanelK ? block.k : k_begin + kPanelK;
      unpack_panel(w, block.k, cols, k_begin, k_end, panel);
      // The next columns lie one after the other: a share of them for each piece of this panel.
      const T* next = w + int64_t{kTileCols} * block.k + int64_t{k_begin} * next_cols;
      panel_times_rows(block, panel, k_begin, k_end, parked, block.y + col, cols,
                       reinterpret_cast<const char*>(next),
                       int64_t{k_end - k_begin} * next_cols * static_cast<int64_t>(sizeof(T)));
    }
  }
}

template <typename T>
inline void dot_block_of(const DotBlock& block) {
  block.num_rows == 1 ? one_row<T>(block) : many_rows<T>(block);
}

void dot_block(const DotBlock& block, DType w_dtype) {
  switch (w_dtype) {
    case DType::kF32:
      return dot_block_of<float>(block);
    case DType::kF16:
      return dot_block_of<Half>(block);
    case DType::kBF16:
      return dot_block_of<BFloat16>(block);
  }
}

int64_t multiply_adds(int64_t rounds, float& total) {
  Vec16 acc[kTileRows * kTileCols];
  float values[kLanes] = {};
#pragma GCC unroll 32
  for (Vec16& a : acc) {
    ++values[0];  // no two alike: the compiler would keep one of them
    a = Vec16::load(values);
  }
  values[0] = 0.5f;
  const Vec16 factor = Vec16::load(values);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 32
    for (Vec16& a : acc) a = fma(a, factor, factor);
  }
  total = 0.0f;
#pragma GCC unroll 32
  for (const Vec16& a : acc) total += sum(a);
  return rounds * kTileRows * kTileCols * kLanes;
}

}  // namespace
}  // namespace kv
