// Tests of lesson 04's engine: the bits of the lessons before it, and nothing gathered.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/error.h"
#include "engine.h"
#include "lessons/01_no_cache/engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "tests/support/random_model.h"
#include "tests/support/same_bits.h"
#include "tests/support/shipped_model.h"
#include "tests/support/temp_dir.h"

namespace {

using kvtest::check_equal;
using kvtest::request_of;
using kvtest::shipped_model;
using kvtest::some_requests;

}  // namespace

TEST_CASE("the engine gives the bits of lessons 01 to 03 for any block size") {
  const auto requests = some_requests();
  const auto none = lesson01::make_engine(shipped_model(), {})->generate(requests);
  check_equal(lesson02::make_engine(shipped_model(), {})->generate(requests), none);
  check_equal(lesson03::make_engine(shipped_model(), {})->generate(requests), none);
  for (const int block_size : {1, 2, 16, 64, 256}) {
    CAPTURE(block_size);
    const auto engine = lesson04::make_engine(shipped_model(), {.block_size = block_size});
    check_equal(engine->generate(requests), none);
    check_equal(engine->generate(requests), none);  // blocks come back in another order
  }
}

TEST_CASE("an engine on plain kernels has lesson 01's bits") {
  kv::Model& model = shipped_model();
  const std::vector<kv::Request> requests{request_of(4, 20), request_of(70, 3)};
  model.set_kernel(kv::Kernel::kPlain);
  const auto none = lesson01::make_engine(model, {})->generate(requests);
  const auto paged = lesson04::make_engine(model, {})->generate(requests);
  model.set_kernel(kv::Kernel::kFast);
  check_equal(paged, none);
}

TEST_CASE("a prompt in chunks gives the same bits wherever the chunks end") {
  const std::vector<kv::Request> requests{request_of(300, 3), request_of(4, 6), request_of(70, 2)};
  const auto whole = lesson04::make_engine(shipped_model(), {})->generate(requests);
  for (const int chunk : {1, 3, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1000}) {
    CAPTURE(chunk);
    // Slots that were not written yet hold NaN: a chunk that read ahead would show it.
    lesson04::PagedEngine engine(shipped_model(), {}, chunk);
    engine.generate(requests);
    lesson03::fill_blocks(*engine.cache(), 0xFF, shipped_model().stream());
    check_equal(engine.generate(requests), whole);
  }
}

TEST_CASE("a chunked prompt takes its blocks as its chunks come") {
  const std::vector<kv::Request> requests{request_of(100, 1)};
  lesson04::PagedEngine engine(shipped_model(), {}, 40);
  const auto result = engine.generate(requests);
  REQUIRE(result.passes.size() == 3);
  CHECK(result.passes[0].rows == 40);
  CHECK(result.passes[1].rows == 40);
  CHECK(result.passes[2].rows == static_cast<int>(requests[0].prompt.size()) - 80);
}

TEST_CASE("a request has the same bits alone and in any company") {
  const auto requests = some_requests();
  const auto all = lesson04::make_engine(shipped_model(), {})->generate(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    CAPTURE(i);
    kv::GenerateResult own;
    own.completions = {all.completions[i]};
    check_equal(lesson04::make_engine(shipped_model(), {})->generate({&requests[i], 1}), own);
  }
}

TEST_CASE("nothing is gathered: no bytes of K and V are copied") {
  const std::vector<kv::Request> requests{request_of(40, 10)};
  const auto paged = lesson04::make_engine(shipped_model(), {})->generate(requests).counters;
  const auto gathered = lesson03::make_engine(shipped_model(), {})->generate(requests).counters;
  CHECK(paged.kv_bytes_copied == 0);
  CHECK(gathered.kv_bytes_copied > 0);
  CHECK(paged.kv_rows_computed == gathered.kv_rows_computed);
  CHECK(paged.kv_bytes_reserved == gathered.kv_bytes_reserved);
}

TEST_CASE("random models of other shapes agree with lesson 01") {
  for (const auto& size : {std::tuple{4, 4, 16}, {8, 1, 24}, {6, 2, 40}, {4, 1, 96}}) {
    const auto& [heads, kv_heads, dim] = size;
    CAPTURE(std::get<0>(size));
    kvtest::TempDir dir;
    const kvtest::RandomModel shape{.num_heads = heads, .num_kv_heads = kv_heads, .head_dim = dim};
    kvtest::write_model(dir.path(), shape);
    kv::Model model = kv::Model::load(dir.path(), kv::Device::kCpu);
    std::vector<kv::Request> requests(2);
    for (int i = 0; i < 70; ++i) requests[0].prompt.push_back((i * 31 + 5) % shape.vocab_size);
    requests[1].prompt = {7};
    for (kv::Request& request : requests) request.max_tokens = 5;
    check_equal(lesson04::make_engine(model, {.block_size = 4})->generate(requests),
                lesson01::make_engine(model, {})->generate(requests));
  }
}

TEST_CASE("a block size that the kernels do not serve is refused by name") {
  for (const int size : {0, -1, 3, 48, 512}) {
    const std::string found = "block-size " + std::to_string(size);
    CHECK_THROWS_WITH_AS(lesson04::make_engine(shipped_model(), {.block_size = size}),
                         doctest::Contains(found.c_str()), kv::UserError);
  }
  const kv::Model& model = shipped_model();
  lesson04::PagedKvCache odd(model.config(), model.stream(), 2, 12);
  CHECK_THROWS_WITH_AS(lesson04::PagedCacheAttention(model.config(), odd),
                       doctest::Contains("block-size 12"), kv::UserError);
}

TEST_CASE("only passes with one row for each sequence may be replayed") {
  const kv::Model& model = shipped_model();
  lesson04::PagedKvCache cache(model.config(), model.stream(), 64, 16);
  lesson04::PagedCacheAttention attention(model.config(), cache);
  lesson03::BlockManager manager(64, 16);
  const int seq = manager.add_sequence();
  kv::PassArrays arrays(model.stream());
  const auto pass = [&](int num_tokens) {
    REQUIRE(manager.extend(seq, num_tokens));
    const lesson03::BlockTable& table = manager.table(seq);
    kv::PassRows rows;
    rows.add(0, std::vector<int32_t>(table.num_tokens()), table.num_tokens() - num_tokens);
    attention.set_tables({&table});
    arrays.begin(rows);
    attention.begin_pass(rows, arrays);
    arrays.upload();
    return arrays.graph_key();
  };
  CHECK(!pass(10));
  const auto key = pass(1);
  CHECK(key);
  for (int t = 12; t <= 256; ++t) CHECK(pass(1) == key);  // a whole group: one graph
  CHECK(pass(1) != key);                                  // token 257 begins another one
}
