#pragma once

// Attention over a few tokens whose result can be seen by eye: what a kernel that is being written
// is tried on first. Each check works for every lesson's kernel, on either device, and takes a few
// CTAs.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/support/attention_runs.h"

namespace kvtest {

/// A sequence with what the functions say of (token, head, element) in q, k and v.
template <class Q, class K, class V>
Sequence made(const HeadShape& shape, int len, const Q& q, const K& k, const V& v) {
  Sequence s(shape, len, 1);
  const auto fill = [&](Rows& rows, int num_heads, const auto& value) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const auto element = static_cast<int>(i) % shape.head_dim;
      const auto of_head = static_cast<int>(i) / shape.head_dim;
      rows[i] = kv::to_bfloat16(
          static_cast<float>(value(of_head / num_heads, of_head % num_heads, element)));
    }
  };
  fill(s.q, shape.num_heads, q);
  fill(s.k, shape.num_kv_heads, k);
  fill(s.v, shape.num_kv_heads, v);
  return s;
}

/// Attention of the parts is wanted(part, token, head, element), everywhere, to within `most` of
/// it. The first element that is not ends the test.
template <class Wanted>
void check_elements(const Attend& attend, const HeadShape& shape, const std::vector<Part>& parts,
                    const Wanted& what, double most = 0.0) {
  const Outputs outputs = attend(shape, parts);
  for (size_t part = 0; part < parts.size(); ++part) {
    const int computed = parts[part].sequence->len - parts[part].num_rows;
    for (size_t i = 0; i < outputs[part].size(); ++i) {
      const auto element = static_cast<int>(i) % shape.head_dim;
      const auto of_head = static_cast<int>(i) / shape.head_dim;
      const int token = computed + of_head / shape.num_heads, head = of_head % shape.num_heads;
      const double found = outputs[part][i];
      const double wanted = what(static_cast<int>(part), token, head, element);
      INFO("sequence ", part, ", token ", token, ", query head ", head, ", element ", element);
      if (most == 0.0) REQUIRE(found == wanted);
      if (found != wanted) REQUIRE(std::abs(found - wanted) <= most * std::abs(wanted));
    }
  }
}

inline int nothing(int, int, int) { return 0; }

/// All scores are 0, so the weights are equal: the output is the mean of the values. Those of
/// sequence 0 begin 2, 4, 9, and the means of its first one, two and three are 2, 3 and 5. Of each
/// sequence the last rows[i] tokens are queries.
inline void check_means(const Attend& attend, const std::vector<int>& rows) {
  const std::vector<std::vector<int>> values{{2, 4, 9, 1}, {10, 20, 60}, {7}};
  const std::vector<std::vector<int>> means{{2, 3, 5, 4}, {10, 15, 30}, {7}};
  const HeadShape shape{1, 1, 32};
  std::vector<Sequence> sequences;
  for (const std::vector<int>& of : values) {
    sequences.push_back(made(
        shape, static_cast<int>(of.size()), nothing, nothing,
        [&](int token, int, int element) { return of[static_cast<size_t>(token)] + element; }));
  }
  std::vector<Part> parts;
  for (size_t i = 0; i < rows.size(); ++i) parts.push_back({&sequences[i], rows[i]});
  check_elements(attend, shape, parts, [&](int part, int token, int, int element) {
    return means[static_cast<size_t>(part)][static_cast<size_t>(token)] + element;
  });
}

/// Key t is large in element 26 t and 0 elsewhere, and query head h is large in element 26 h: it
/// takes the value of token h alone, or of the last token that it sees if token h comes later. The
/// elements are in all parts of a head of 80, and only a whole dot product finds them.
inline void check_pointing(const Attend& attend) {
  const HeadShape shape{4, 1, 80};
  const auto wins = [](int token, int head) { return std::min(token, head); };
  const Sequence s = made(
      shape, 4,
      [&](int token, int head, int element) { return element == 26 * wins(token, head) ? 64 : 0; },
      [](int token, int, int element) { return element == 26 * token ? 64 : 0; },
      [](int token, int, int element) { return 100 * token + element; });
  check_elements(attend, shape, {{&s, 4}}, [&](int, int token, int head, int element) {
    return kv::to_float(kv::to_bfloat16(static_cast<float>(100 * wins(token, head) + element)));
  });
}

/// Six query heads, two heads of K and V: heads 0, 1 and 2 read the first, 3, 4 and 5 the second.
inline void check_heads(const Attend& attend) {
  const HeadShape shape{6, 2, 32};
  const Sequence s =
      made(shape, 2, nothing, nothing, [](int, int head, int) { return head == 0 ? 10 : 20; });
  check_elements(attend, shape, {{&s, 2}},
                 [](int, int, int head, int) { return head < 3 ? 10 : 20; });
}

/// q . k is 0 and 8, head_dim 64: scores of 0 and 1, weights of 1 / (1 + e) and e / (1 + e).
inline void check_scale(const Attend& attend) {
  const HeadShape shape{1, 1, 64};
  const auto first = [](int token, int, int element) { return element == 0 ? token : 0; };
  const Sequence s = made(
      shape, 2, [](int, int, int element) { return element == 0 ? 8 : 0; }, first,
      [](int token, int, int) { return token; });
  const double e = std::exp(1.0);
  check_elements(
      attend, shape, {{&s, 2}},
      [&](int, int token, int, int) { return token == 0 ? 0.0 : e / (1.0 + e); }, 0x1p-8);
}

/// Scores of -32,768 twice, then -65,536: exp() of each is 0, and yet two keys share the weight.
inline void check_far_below_zero(const Attend& attend) {
  const HeadShape shape{1, 1, 64};
  const Sequence s = made(
      shape, 3, [](int, int, int) { return 4096; },
      [](int token, int, int) { return token < 2 ? -1 : -2; },
      [](int token, int, int) { return token < 2 ? 4 + 2 * token : 100; });
  check_elements(attend, shape, {{&s, 3}},
                 [](int, int token, int, int) { return token == 0 ? 4 : 5; });
}

/// Scores of 0, 512 and 1024, of which exp() is infinite. The largest comes last and takes all.
inline void check_growing_scores(const Attend& attend) {
  const HeadShape shape{1, 1, 64};
  const Sequence s = made(
      shape, 3, [](int, int, int) { return 64; }, [](int token, int, int) { return token; },
      [](int token, int, int) { return 10 + token; });
  check_elements(attend, shape, {{&s, 3}}, [](int, int token, int, int) { return 10 + token; });
}

/// Values of 2^27, -2^27 and 3, and equal scores. In 32 bits 3 is lost beside 2^27, so only if the
/// keys are added in ascending order is the mean of all three 1.
inline void check_order(const Attend& attend) {
  const HeadShape shape{1, 1, 32};
  const Sequence s = made(shape, 3, nothing, nothing, [](int token, int, int) {
    return token == 2 ? 3 : (1 - 2 * token) * (1 << 27);
  });
  INFO("the values are 2^27, -2^27 and 3; in 32 bits, 3 - 2^27 + 2^27 is 0");
  check_elements(attend, shape, {{&s, 3}},
                 [](int, int token, int, int) { return token == 0 ? 1 << 27 : token - 1; });
}

/// With a window a query sees the last keys alone. attend_within(n) attends with a window of n. Of
/// the second of two sequences only the last `rows` tokens are queries. The first value is
/// infinite: where a query sees it, nothing of that stays for the next one.
template <class AttendWithin>
void check_window(const AttendWithin& attend_within, int rows) {
  const HeadShape shape{1, 1, 32};
  const Sequence s = made(shape, 4, nothing, nothing, [](int token, int, int) {
    return token == 0 ? INFINITY : 10.0f * static_cast<float>(token);
  });
  for (const int window : {3, 1, 2, 9}) {
    INFO("window ", window, "; the values are inf, 10, 20 and 30; rows of sequence 1: ", rows);
    check_elements(attend_within(window), shape, {{&s, 4}, {&s, rows}},
                   [&](int, int token, int, int) {
                     const int first = token - window + 1;
                     return first <= 0 ? INFINITY : 5.0f * static_cast<float>(token + first);
                   });
  }
}

/// Random numbers in a few tokens, against attention in double precision: in heads of 80, and then
/// of another size, on the CPU an odd one.
inline void check_few_random(const Attend& attend, kv::Device device,
                             const std::vector<int>& rows) {
  for (const int head_dim : {80, device == kv::Device::kCpu ? 27 : 32}) {
    const HeadShape shape{4, 2, head_dim};
    const Sequence sequences[] = {{shape, 5, 1}, {shape, 1, 2}, {shape, 4, 3}};
    std::vector<Part> parts;
    for (size_t i = 0; i < rows.size(); ++i) parts.push_back({&sequences[i], rows[i]});
    const Outputs outputs = attend(shape, parts);
    for (size_t i = 0; i < parts.size(); ++i) {
      INFO("sequence ", i, ", whose rows have 4 query heads of ", head_dim, " elements");
      check_close(outputs[i], in_double(shape, parts[i], false), in_double(shape, parts[i], true),
                  plain_tolerance(device));
    }
  }
}

}  // namespace kvtest
