#pragma once

// Attention with a sliding window, by the kernels of lessons 01, 02 and 04, on either device.

#include <algorithm>
#include <climits>
#include <cmath>
#include <string>
#include <vector>

#include "common/kernel.h"
#include "lessons/02_flat_cache/test/attend.h"
#include "lessons/04_paged_attention/test/attend.h"

namespace windows {

using kvtest::HeadShape;
using kvtest::last_of;
using kvtest::Outputs;
using kvtest::Part;
using kvtest::Sequence;

inline bool is_plain(const lesson04_test::Run& run) { return run.kernel == kv::Kernel::kPlain; }

/// Lesson 01's kernel: every token of a sequence is a query.
inline Outputs whole(const lesson04_test::Run& run, int window, const HeadShape& shape,
                     const std::vector<Part>& parts) {
  return lesson01_test::attend_with(run.kernel, run.device, window)(shape, parts);
}

/// The same with enough further sequences in the pass that the fast kernel on CUDA streams. A plan
/// counts the groups that a window may touch, for any bound of the lengths.
inline kvtest::Attend in_a_crowd(const kvtest::Attend& attend) {
  return [attend](const HeadShape& shape, const std::vector<Part>& parts) {
    const Sequence other(shape, 2, 9);
    std::vector<Part> all = parts;
    all.resize(parts.size() + 80, {&other, 1});
    Outputs outputs = attend(shape, all);
    outputs.resize(parts.size());
    return outputs;
  };
}

/// Lessons 02 and 04: slabs, and shuffled blocks of several sizes.
struct Way {
  std::string name;
  kvtest::Attend attend;
};
inline std::vector<Way> all_ways(const lesson04_test::Run& run, int window,
                                 const std::vector<int>& block_sizes = {1, 16, 64, 256}) {
  std::vector<Way> ways{
      {"slabs", lesson02_test::attend_with(
                    run.kernel, run.device,
                    {.more_tokens = run.seq_len_bound, .runs = 2, .window = window})}};
  for (const int size : block_sizes) {
    ways.push_back(
        {"blocks of " + std::to_string(size), run.attend({.block_size = size, .window = window})});
  }
  if (run.seq_len_bound > 0) {
    for (Way& way : ways) way.attend = in_a_crowd(way.attend);
  }
  return ways;
}

/// Every lesson gives the bits of lesson 01: windows on both sides of a quarter of a tile, a tile
/// and a group; few queries and many; alone and in a batch.
inline void check_equal_bits(kv::Device device, const HeadShape& shape,
                             const std::vector<int>& windows, const std::vector<int>& chunks,
                             int longest) {
  const Sequence a(shape, longest, 1), b(shape, 70, 2), c(shape, 16, 3);
  const std::vector<Part> all{{&a, a.len}, {&b, b.len}, {&c, c.len}};
  for (const auto& run : lesson04_test::runs_on(device)) {
    for (const int window : windows) {
      CAPTURE(is_plain(run));
      CAPTURE(run.seq_len_bound);
      CAPTURE(window);
      const Outputs want = whole(run, window, shape, all);
      for (const int chunk : chunks) {
        CAPTURE(chunk);
        const std::vector<Part> parts{{&c, std::min(chunk, c.len)},
                                      {&a, std::min(chunk, a.len)},
                                      {&b, std::max(1, std::min(chunk / 2, b.len))}};
        for (const Way& way : all_ways(run, window, {1, 64})) {
          CAPTURE(way.name);
          const Outputs of_parts{last_of(want[2], shape, parts[0].num_rows),
                                 last_of(want[0], shape, parts[1].num_rows),
                                 last_of(want[1], shape, parts[2].num_rows)};
          lesson04_test::check_bits(way.attend(shape, parts), of_parts);
          lesson04_test::check_bits(way.attend(shape, {parts[1]}), {of_parts[1]});
        }
      }
    }
  }
}

/// Tokens begin .. end - 1 alone.
inline Sequence cut(const HeadShape& shape, const Sequence& s, int begin, int end) {
  Sequence part(shape, end - begin, 1);
  const auto take = [&](kvtest::Rows& to, const kvtest::Rows& from, size_t width) {
    std::copy_n(from.begin() + begin * static_cast<std::ptrdiff_t>(width), to.size(), to.begin());
  };
  take(part.q, s.q, shape.q_width());
  take(part.k, s.k, shape.kv_width());
  take(part.v, s.v, shape.kv_width());
  return part;
}

/// A query gives what it gives if its window is all there is. Plain kernels go through the keys in
/// order, so that holds anywhere; for fast ones the cuts must be the same: the window begins with a
/// group.
inline void check_last_keys(kv::Device device, const std::vector<int>& windows) {
  const HeadShape shape{4, 2, 64};
  for (const auto& run : lesson04_test::runs_on(device)) {
    for (const int window : windows) {
      CAPTURE(is_plain(run));
      CAPTURE(run.seq_len_bound);
      CAPTURE(window);
      const int len = window + (is_plain(run) ? 23 : kv::attention::kGroupTokens);
      const Sequence s(shape, len, 7), seen = cut(shape, s, len - window, len);
      const auto want = whole(run, 0, shape, {{&seen, window}});
      const std::vector<float> last = last_of(want[0], shape, 1);
      for (const Way& way : all_ways(run, window)) {
        CAPTURE(way.name);
        const std::string found =
            lesson04_test::first_difference(way.attend(shape, {{&s, 1}})[0], last);
        CHECK(found == "");
      }
    }
  }
}

/// As long as its position is in the first window, a query gives what it gives without one.
inline void check_first_window(kv::Device device) {
  const HeadShape shape{4, 2, 64};
  const Sequence s(shape, 300, 7);
  for (const auto& run : lesson04_test::runs_on(device)) {
    CAPTURE(is_plain(run));
    const std::vector<float> want = whole(run, 0, shape, {{&s, s.len}})[0];
    for (const int window : {64, 65, 299, 300, 301, INT_MAX}) {
      CAPTURE(window);
      const auto same = static_cast<size_t>(std::min(window, s.len)) * shape.q_width();
      for (const Way& way : all_ways(run, window, {16})) {
        CAPTURE(way.name);
        std::vector<float> got = way.attend(shape, {{&s, s.len}})[0];
        CHECK(kvtest::same_bits(got, want) == (window >= s.len));
        got.resize(same);
        CHECK(kvtest::same_bits(got, {want.begin(), want.begin() + std::ssize(got)}));
      }
    }
  }
}

/// What is kept of keys that no query of the pass sees has no say, even if it is NaN (and
/// lesson04_test::Pass gives their blocks no entry in the table). The first key that one sees does.
inline void check_before_window(kv::Device device, const HeadShape& shape,
                                const std::vector<int>& windows, const std::vector<int>& chunks) {
  const Sequence s(shape, 330, 7);
  for (const auto& run : lesson04_test::runs_on(device)) {
    for (const int window : windows) {
      for (const int chunk : chunks) {
        CAPTURE(is_plain(run));
        CAPTURE(run.seq_len_bound);
        CAPTURE(window);
        CAPTURE(chunk);
        const int first = kv::attention::first_key(s.len - chunk, window);
        const auto with_nan_before = [&](int token) {
          Sequence other = s;
          for (kvtest::Rows* rows : {&other.k, &other.v}) {
            std::fill_n(rows->begin(), static_cast<size_t>(token) * shape.kv_width(),
                        kv::BFloat16{0xFFFF});
          }
          return other;
        };
        const Sequence forgotten = with_nan_before(first), one_more = with_nan_before(first + 1);
        for (const Way& way : all_ways(run, window, {16})) {
          CAPTURE(way.name);
          const auto want = way.attend(shape, {{&s, chunk}})[0];
          CHECK(std::ranges::none_of(want, [](float x) { return std::isnan(x); }));
          const auto got = way.attend(shape, {{&forgotten, chunk}})[0];
          CHECK(lesson04_test::first_difference(got, want) == "");
          CHECK(std::isnan(way.attend(shape, {{&one_more, chunk}})[0][0]));
        }
      }
    }
  }
}

/// Close to double precision, and the plain kernel to the fast one.
inline void check_close_to_truth(kv::Device device) {
  for (const HeadShape shape : {HeadShape{4, 2, 128}, HeadShape{6, 2, 80}, HeadShape{8, 1, 64}}) {
    const Sequence s(shape, 290, 5);
    for (const int window : {1, 63, 100, 256}) {
      for (const int rows : {1, 40}) {
        CAPTURE(shape.head_dim);
        CAPTURE(window);
        CAPTURE(rows);
        const Part part{&s, rows};
        const auto by = [&](kv::Kernel kernel) {
          return lesson04_test::attend_with(kernel, device, {.window = window})(shape, {part})[0];
        };
        const auto magnitude = kvtest::in_double(shape, part, true, window);
        const auto plain = by(kv::Kernel::kPlain);
        kvtest::check_close(plain, kvtest::in_double(shape, part, false, window), magnitude,
                            kvtest::plain_tolerance(device));
        kvtest::check_close(plain, by(kv::Kernel::kFast), magnitude,
                            kvtest::plain_to_fast_tolerance(device));
      }
    }
  }
}

}  // namespace windows
