// Lesson 05 on a GPU: copies land where the CPU twin puts them, and sharing changes no bit.

#include <doctest/doctest.h>

#include <random>
#include <stdexcept>
#include <vector>

#include "copy_blocks.h"
#include "engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "tests/support/kv_shape.h"
#include "tests/support/same_bits.h"
#include "tests/support/shipped_model.h"

namespace {

using kvtest::check_equal;
using kvtest::request_of;
using kvtest::shape;
using lesson03::PagedKvCache;
using lesson05::BlockCopy;
using lesson05::SharingEngine;

const kv::Stream& stream() {
  static const kv::Stream kStream(kv::Device::kCuda);
  return kStream;
}

kv::Model& model() {
  static kv::Model kModel = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  return kModel;
}

/// K and V of every block of every layer: [layers][blocks][2].
using Contents = std::vector<std::vector<uint16_t>>;

size_t words_of(const PagedKvCache& cache) {
  return static_cast<size_t>(cache.bytes_per_block() / cache.num_layers() / 4);
}

std::vector<uint16_t> read(const void* at, size_t words) {
  std::vector<uint16_t> host(words);
  kv::copy_to_host(host.data(), at, words * 2, stream());
  return host;
}

Contents contents(const PagedKvCache& cache) {
  Contents all;
  for (int layer = 0; layer < cache.num_layers(); ++layer) {
    for (int id = 0; id < cache.num_blocks(); ++id) {
      all.push_back(read(cache.block(layer, id).k, words_of(cache)));
      all.push_back(read(cache.block(layer, id).v, words_of(cache)));
    }
  }
  return all;
}

std::vector<uint16_t> random_words(std::mt19937_64& rng, size_t n) {
  std::vector<uint16_t> words(n);
  for (uint16_t& word : words) word = static_cast<uint16_t>(rng());
  return words;
}

void fill_randomly(const PagedKvCache& cache, uint64_t seed) {
  std::mt19937_64 rng(seed);
  for (int layer = 0; layer < cache.num_layers(); ++layer) {
    for (int id = 0; id < cache.num_blocks(); ++id) {
      for (void* at : {cache.block(layer, id).k, cache.block(layer, id).v}) {
        const auto words = random_words(rng, words_of(cache));
        kv::copy_to_device(at, words.data(), words.size() * 2, stream());
      }
    }
  }
}

kv::Request hot_request(int prompt, int max_tokens) {
  kv::Request request = request_of(prompt, max_tokens);
  request.sampling.temperature = 1.5f;
  request.sampling.seed = 7;
  return request;
}

}  // namespace

TEST_CASE("copy_blocks copies all layers of K and V and touches nothing else") {
  struct Case {
    int kv_heads, head_dim, block_size;
    bool separate;
  };
  for (const Case c : {Case{8, 128, 16, false}, Case{2, 64, 256, false}, Case{3, 8, 3, false},
                       Case{1, 80, 1, false}, Case{2, 32, 16, true}, Case{3, 8, 1, true}}) {
    CAPTURE(c.head_dim);
    CAPTURE(c.block_size);
    CAPTURE(c.separate);
    constexpr int kBlocks = 9, kLayers = 3;
    const PagedKvCache cache(shape(kLayers, c.kv_heads, c.head_dim), stream(), kBlocks,
                             c.block_size, c.separate);
    fill_randomly(cache, 1);
    Contents wanted = contents(cache);
    kv::DeviceBuffer scratch;
    // One list after the other, each longer than the last; the second reads what the first wrote.
    for (const auto& copies :
         {std::vector<BlockCopy>{{6, 0}}, std::vector<BlockCopy>{{0, 8}, {2, 5}, {0, 3}, {4, 7}}}) {
      lesson05::copy_blocks_cuda({.cache = &cache, .copies = copies, .scratch = &scratch},
                                 stream());
      for (size_t layer = 0; layer < kLayers; ++layer) {
        for (const BlockCopy& copy : copies) {
          for (size_t part = 0; part < 2; ++part) {
            const auto at = [&](int32_t id) {
              return (layer * kBlocks + static_cast<size_t>(id)) * 2 + part;
            };
            wanted[at(copy.destination)] = wanted[at(copy.source)];
          }
        }
      }
    }
    CHECK(contents(cache) == wanted);
  }
}

TEST_CASE("copy_blocks takes more pairs than a staged copy holds") {
  // 20,000 pairs are 160,000 bytes.
  constexpr int kPairs = 20'000;
  const PagedKvCache cache(shape(1, 1, 8), stream(), 2 * kPairs, 1);
  std::vector<BlockCopy> copies;
  for (int i = 0; i < kPairs; ++i) copies.push_back({2 * i, 2 * i + 1});
  std::mt19937_64 rng(3);
  const size_t words = words_of(cache) * 2 * kPairs;
  for (void* at : {cache.block(0, 0).k, cache.block(0, 0).v}) {
    const auto random = random_words(rng, words);
    kv::copy_to_device(at, random.data(), words * 2, stream());
  }
  kv::DeviceBuffer scratch;
  lesson05::copy_blocks_cuda({.cache = &cache, .copies = copies, .scratch = &scratch}, stream());
  for (const void* at : {cache.block(0, 0).k, cache.block(0, 0).v}) {
    const auto all = read(at, words);
    int equal = 0;
    for (size_t i = 0; i < kPairs; ++i) {
      equal += std::equal(all.begin() + static_cast<std::ptrdiff_t>(16 * i),
                          all.begin() + static_cast<std::ptrdiff_t>(16 * i + 8),
                          all.begin() + static_cast<std::ptrdiff_t>(16 * i + 8));
    }
    CHECK(equal == kPairs);
  }
}

TEST_CASE("blocks past 2^31 elements are copied to where they belong") {
  // Qwen3-0.6B's shape, 4,700 blocks of 16: K and V have 2.16e9 elements each.
  constexpr int kLayers = 28, kBlocks = 4'700;
  const PagedKvCache cache(shape(kLayers, 8, 128), stream(), kBlocks, 16);
  std::mt19937_64 rng(5);
  const int last = kLayers - 1;
  const auto k = random_words(rng, words_of(cache)), v = random_words(rng, words_of(cache));
  kv::copy_to_device(cache.block(last, kBlocks - 2).k, k.data(), k.size() * 2, stream());
  kv::copy_to_device(cache.block(last, kBlocks - 2).v, v.data(), v.size() * 2, stream());
  const std::vector<BlockCopy> copies{{kBlocks - 2, kBlocks - 1}, {1, 0}};
  kv::DeviceBuffer scratch;
  lesson05::copy_blocks_cuda({.cache = &cache, .copies = copies, .scratch = &scratch}, stream());
  CHECK(read(cache.block(last, kBlocks - 1).k, k.size()) == k);
  CHECK(read(cache.block(last, kBlocks - 1).v, v.size()) == v);
  CHECK(read(cache.block(last, kBlocks - 2).k, k.size()) == k);
}

TEST_CASE("copy_blocks refuses what it cannot do before it writes") {
  const PagedKvCache cache(shape(2, 2, 8), stream(), 4, 2);
  fill_randomly(cache, 2);
  const Contents before = contents(cache);
  kv::DeviceBuffer scratch;
  const auto copy = [&](std::vector<BlockCopy> copies) {
    lesson05::copy_blocks({.cache = &cache, .copies = copies, .scratch = &scratch}, stream());
  };
  CHECK_THROWS_AS(copy({{0, 1}, {2, 4}}), std::out_of_range);
  CHECK_THROWS_AS(copy({{0, 1}, {1, 2}}), std::invalid_argument);
  copy({});
  CHECK(contents(cache) == before);
}

TEST_CASE("n samples have the bits of n independent requests") {
  for (const int prompt : {16, 17, 70}) {
    for (const bool separate : {false, true}) {
      CAPTURE(prompt);
      CAPTURE(separate);
      const kv::Request request = hot_request(prompt, 20);
      std::vector<kv::Request> requests(4, request);
      for (size_t i = 0; i < requests.size(); ++i) requests[i].sampling.seed += i;
      SharingEngine engine(model(), {.separate_blocks = separate});
      check_equal(engine.sample(request, 4),
                  lesson02::make_engine(model(), {})->generate(requests));
      CHECK(engine.manager()->num_copies() == (prompt % 16 == 0 ? 0 : 3));
      CHECK(engine.manager()->pool().num_used() == 0);
    }
  }
}

TEST_CASE("plain requests have lesson 02's bits") {
  const std::vector<kv::Request> requests{request_of(4, 20), request_of(1, 5), request_of(300, 3)};
  const auto flat = lesson02::make_engine(model(), {})->generate(requests);
  for (const int block_size : {1, 16, 256}) {
    CAPTURE(block_size);
    check_equal(lesson05::make_engine(model(), {.block_size = block_size})->generate(requests),
                flat);
  }
}

TEST_CASE("beam search finds the same hypotheses for any block size") {
  // Block size 1 never copies a block, 16 copies many: the bits must not know.
  const kv::Request request = request_of(20, 30);
  SharingEngine ones(model(), {.block_size = 1}), sixteens(model(), {.block_size = 16});
  const auto a = ones.beam_search(request, {});
  const auto b = sixteens.beam_search(request, {});
  CHECK(a.counters.kv_bytes_copied == 0);
  CHECK(b.counters.kv_bytes_copied > 0);
  REQUIRE(a.beams.size() == 4);
  REQUIRE(b.beams.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    CHECK(a.beams[i].tokens == b.beams[i].tokens);
    CHECK(a.beams[i].log_prob == b.beams[i].log_prob);
  }
  const auto greedy = lesson02::make_engine(model(), {})->generate({&request, 1});
  CHECK(sixteens.beam_search(request, {.num_beams = 1}).beams[0].tokens ==
        greedy.completions[0].tokens);
}
