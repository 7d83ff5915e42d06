// Lesson 04's kernels on CUDA: what attention_test.cpp says of the CPU's.

#include "common/device.h"

constexpr auto kDevice = kv::Device::kCuda;
#include "attention_cases.h"
#include "engine.h"
#include "fast.h"
#include "kernels/attention/plan.h"
#include "tests/support/same_bits.h"

TEST_CASE("a bound of much work makes the plan stream, a small one spread") {
  const HeadShape shape{16, 2, 80};
  const Sequence s(shape, 300, 1);
  for (const int bound : {0, kMuchWork}) {
    const Pass pass(shape, {{&s, 1}}, {.seq_len_bound = bound}, kDevice);
    const kv::attention::Plan plan(kv::attention::queries_of(pass.args));
    using Path = kv::attention::Plan::Path;
    CHECK(plan.path == (bound == 0 ? Path::kSpread : Path::kStream));
  }
}

TEST_CASE("any number of queries and any place in the batch give the same bits" *
          doctest::test_suite("sweep")) {
  const HeadShape shape{16, 8, 128};
  const Sequence a(shape, 700, 1), b(shape, 300, 2), c(shape, 64, 3);
  for (const auto& parts :
       {std::vector<Part>{{&a, 1}}, std::vector<Part>{{&b, 4}, {&a, 1}},
        std::vector<Part>{{&c, 7}, {&a, 5}, {&b, 1}, {&c, 1}},
        std::vector<Part>{{&a, 32}, {&c, 64}}, std::vector<Part>{{&a, 700}, {&b, 1}, {&c, 33}}}) {
    CAPTURE(parts.size());
    const Outputs want = wanted(kFast, shape, parts);
    for (const Run& run : {kFast, Run{kv::Kernel::kFast, kDevice, kMuchWork}}) {
      for (const uint64_t seed : {1u, 2u}) {
        check_bits(run.attend({.shuffle = seed})(shape, parts), want);
      }
    }
  }
  kvtest::check_bits_of_a_query(kPlain.attend(), /*chunks=*/true);
}

/// The sequences `copies` times, mixed; every third has as many query rows as 8 pairs allow.
std::vector<Part> large_batch(const std::vector<Sequence>& sequences, int copies, int max_rows) {
  std::vector<Part> parts;
  for (size_t i = 0; i < static_cast<size_t>(copies) * sequences.size(); ++i) {
    const Sequence& s = sequences[i * 5 % sequences.size()];
    parts.push_back({&s, i % 3 == 0 ? std::min(max_rows, s.len) : 1});
  }
  return parts;
}

/// The expected output of each part: lesson 01's last rows of its sequence.
Outputs wanted_of_batch(const HeadShape& shape, const std::vector<Sequence>& sequences,
                        const std::vector<Part>& parts) {
  const Outputs all = wanted(kFast, shape, kvtest::last_tokens_of(sequences, 8));
  Outputs want;
  for (const Part& part : parts) {
    const auto& rows = all[part.sequence - sequences.data()];
    want.push_back(kvtest::last_of(rows, shape, part.num_rows));
  }
  return want;
}

/// Lengths around all boundaries, 28 groups of keys together.
const std::vector<int> kUneven{1, 63, 64, 65, 255, 256, 257, 511, 513, 1000, 1025, 1300};

// On Hopper such a batch is cut into runs, one for each of 132 SMs. 5 copies of the sequences have
// enough short groups that runs are counted in tiles, and begin and end anywhere in a sequence.
TEST_CASE("a large uneven batch gives the bits of lesson 01" * doctest::test_suite("sweep")) {
  for (const HeadShape shape :
       {HeadShape{8, 8, 128}, HeadShape{16, 8, 128}, HeadShape{32, 8, 128}, HeadShape{64, 8, 128},
        HeadShape{16, 8, 64}, HeadShape{16, 8, 80}, HeadShape{32, 8, 96}, HeadShape{32, 4, 128},
        HeadShape{12, 2, 128}, HeadShape{14, 2, 64}}) {
    CAPTURE(shape.num_heads);
    CAPTURE(shape.head_dim);
    const std::vector<Sequence> sequences = kvtest::sequences_of(shape, kUneven);
    const auto parts = large_batch(sequences, 5, 8 / (shape.num_heads / shape.num_kv_heads));
    const Outputs want = wanted_of_batch(shape, sequences, parts);
    for (const int block_size : {1, 16, 256}) {
      CAPTURE(block_size);
      Pass pass(shape, parts, {.block_size = block_size, .seq_len_bound = 4096}, kDevice);
      check_bits(pass.run(op_of(kFast.kernel)), want);
    }
  }
}

TEST_CASE("a large uneven batch gives the same bits however often it is tried" *
          doctest::test_suite("sweep")) {
  const HeadShape shape{16, 8, 64};
  for (const auto& [lengths, copies] :
       {std::pair{kUneven, 2},  // a group for each run
        std::pair{kUneven, 5}, std::pair{std::vector{1000, 1025, 1300}, 10}}) {  // two
    CAPTURE(copies);
    const std::vector<Sequence> sequences = kvtest::sequences_of(shape, lengths);
    const auto parts = large_batch(sequences, copies, 4);
    const Outputs want = wanted_of_batch(shape, sequences, parts);
    Pass pass(shape, parts, {.seq_len_bound = 4096}, kDevice);
    for (int i = 0; i < 20; ++i) check_bits(pass.run(op_of(kFast.kernel)), want);
  }
}

// With little work, the CTA that comes last merges one group after the other.
TEST_CASE("a chain of many merges gives the bits of merging one by one") {
  const HeadShape shape{4, 1, 32};
  const Sequence s(shape, 65 * 256 + 1, 1);
  const std::vector<Part> parts{{&s, 2}};
  Pass one_by_one(shape, parts, {}, kDevice);
  Pass pass(shape, parts, {.seq_len_bound = kMuchWork}, kDevice);
  check_bits(pass.run(op_of(kFast.kernel)), one_by_one.run(op_of(kFast.kernel)));
}

// On Hopper it is cut into runs, and a second launch merges the groups: 130, 1, 2 and 128. The
// simulated GPU has no runs and would need ten minutes, so it has the case before this one.
TEST_CASE("one long sequence in runs gives the bits of lesson 01" * doctest::test_suite("sweep")) {
  const HeadShape shape{16, 8, 64};
  const auto sequences = kvtest::sequences_of(shape, {33'100, 200, 300, 32'768});
  for (const int rows : {1, 4}) {
    CAPTURE(rows);
    const std::vector<Part> parts = kvtest::last_tokens_of(sequences, rows);
    const Outputs want = wanted_of_batch(shape, sequences, parts);
    Pass pass(shape, parts, {}, kDevice);
    check_bits(pass.run(op_of(kFast.kernel)), want);
    Pass alone(shape, {parts[0]}, {}, kDevice);
    check_bits(alone.run(op_of(kFast.kernel)), {want[0]});
  }
}

// On Hopper the CTAs of up to 8 groups merge out of each other's memory.
TEST_CASE("a few groups of keys give the bits of lesson 01, whatever the plan's bound is") {
  for (const HeadShape shape : {HeadShape{4, 2, 80}, HeadShape{16, 8, 128}, HeadShape{8, 1, 64}}) {
    CAPTURE(shape.num_heads);
    for (const int len : {256, 257, 600, 1300}) {
      CAPTURE(len);
      const std::vector<Sequence> sequences{Sequence(shape, len, 1)};
      for (const int rows : {1, 3}) {
        const std::vector<Part> parts{{sequences.data(), rows}};
        const Outputs want = wanted_of_batch(shape, sequences, parts);
        for (const int bound : {0, 1536, 2049}) {
          Pass pass(shape, parts, {.seq_len_bound = bound}, kDevice);
          check_bits(pass.run(op_of(kFast.kernel)), want);
        }
      }
    }
  }
}

TEST_CASE("what the kernels do not serve is refused by name") {
  const HeadShape shape{16, 8, 128};
  const Sequence s(shape, 700, 1);
  Pass pass(shape, {{&s, 1}}, {}, kDevice);
  const kv::Stream stream(kDevice);
  CHECK_THROWS_AS(lesson04::fast_paged_attention_cuda(pass.args, stream), std::logic_error);
  pass.args.cache.head_dim = 72;
  pass.args.max_seq_len = 100;  // one group: no workspace
  CHECK_THROWS_AS(lesson04::fast_paged_attention_cuda(pass.args, stream), kv::UserError);
}

TEST_CASE("the engine gives lesson 03's bits on CUDA in chunks") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kDevice);
  const std::vector<kv::Request> requests{kvtest::request_of(4, 20), kvtest::request_of(300, 3),
                                          kvtest::request_of(1, 30)};
  const auto gathered = lesson03::make_engine(model, {})->generate(requests);
  for (const int chunk : {0, 1, 48}) {
    CAPTURE(chunk);
    kvtest::check_equal(lesson04::PagedEngine(model, {}, chunk).generate(requests), gathered);
  }
}
