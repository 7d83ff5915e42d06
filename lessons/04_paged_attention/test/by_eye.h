#pragma once

// Paged attention over a few tokens in blocks of two slots, with results that can be checked by
// eye. Every row is one number, again and again (lesson 03's numbered rows).

#include "attend.h"
#include "lessons/03_paged_blocks/test/numbered_rows.h"

namespace lesson04_test {

/// V of slot s is numbers[s]; a negative number stands for NaN, in K too. K is 0 elsewhere, so all
/// scores are 0, all weights equal, and a query's output is the mean of the values that it sees.
inline lesson03::PagedKvCache cache_of_means(const std::vector<int>& numbers, int head_dim,
                                             const kv::Stream& stream) {
  const auto num_blocks = static_cast<int>(numbers.size()) / 2;
  lesson03::PagedKvCache pool =
      lesson03_test::blocks_of_two(num_blocks, 1, head_dim, stream);  // NaN
  const lesson03::KvBlocks cache = pool.layer(0);
  std::vector<int64_t> slots;
  for (size_t slot = 0; slot < numbers.size(); ++slot) {
    slots.push_back(numbers[slot] < 0 ? lesson03::kNoSlot : static_cast<int64_t>(slot));
  }
  const std::vector<int> zeros(numbers.size(), 0);
  lesson03_test::write_rows(cache, lesson03_test::numbered(zeros, cache, stream),
                            lesson03_test::numbered(numbers, cache, stream), slots, stream);
  return pool;
}

/// Two sequences, of five tokens and of one; the last `rows` of the first and the one of the second
/// are queries. The first one's tokens have the values 2, 4, 9, 1 and 9, whose means are 2, 3, 5, 4
/// and 5.
inline void check_means_by_table(const Run& run, int rows, int head_dim) {
  const kv::Stream stream(run.device);
  lesson03::PagedKvCache pool = cache_of_means({9, 1, 7, -1, 9, -1, 2, 4}, head_dim, stream);
  // Entries after a sequence's last block must not be followed.
  const auto tables = kvtest::upload(std::vector<int32_t>{3, 0, 2, 1 << 30,  //
                                                          1, -1, 1 << 30, -1},
                                     stream);
  const auto first_row = kvtest::upload(std::vector<int32_t>{0, rows, rows + 1}, stream);
  const auto seq_len = kvtest::upload(std::vector<int32_t>{5, 1}, stream);
  lesson04::PagedAttentionArgs args{.cache = pool.layer(0),
                                    .first_row = first_row.as<const int32_t>(),
                                    .seq_len = seq_len.as<const int32_t>(),
                                    .block_tables = tables.as<const int32_t>(),
                                    .max_blocks_per_seq = 4,
                                    .num_seqs = 2,
                                    .num_rows = rows + 1,
                                    .max_rows_per_seq = rows,
                                    .max_seq_len = 5,
                                    .num_heads = 1};
  const auto q =
      kvtest::upload(lesson03_test::numbered(std::vector<int>(static_cast<size_t>(rows) + 1, 1),
                                             args.cache, stream),
                     stream);
  const auto out = kvtest::poisoned(q.bytes(), stream);
  args.q = q.data(), args.out = out.data();
  op_of(run.kernel).attend(args, stream);
  const std::string means[] = {"", "5 7", "4 5 7", "5 4 5 7", "3 5 4 5 7", "2 3 5 4 5 7"};
  INFO("blocks of two slots. V of slots 0, 1, ...: 9 1 | 7 NaN | 9 NaN | 2 4; K is 0 or NaN");
  INFO("sequence 0: table 3 0 2, 5 tokens, the last ", rows, " are queries");
  INFO("sequence 1: table 1, 1 token, a query");
  const std::string found =
      lesson03_test::drawn(lesson03_test::words_of(out, stream), args.cache, 99, stream);
  CHECK(found == means[rows]);
}

}  // namespace lesson04_test
