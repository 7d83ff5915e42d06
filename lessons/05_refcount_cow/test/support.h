#pragma once

// What the tests on both devices share: all bytes of a cache, copies with their right answer, and
// requests for samples.

#include <doctest/doctest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "common/model/generation.h"
#include "copy_blocks.h"
#include "engine.h"
#include "lessons/03_paged_blocks/test/guards.h"
#include "tests/support/kv_shape.h"
#include "tests/support/shipped_model.h"

namespace lesson05_test {

using Bytes = std::vector<unsigned char>;

/// K and V of every block of every layer: entry (layer * num_blocks + block_id) * 2, and V next.
struct Contents {
  std::vector<Bytes> parts;
  bool operator==(const Contents&) const = default;

  void copy(lesson03::PagedKvCache& cache, const lesson05::BlockCopy& copy) {
    for (int layer = 0; layer < cache.num_layers(); ++layer) {
      const auto at = [&](int32_t id) {
        return parts.begin() + 2 * (layer * cache.num_blocks() + id);
      };
      std::copy_n(at(copy.source), 2, at(copy.destination));
    }
  }
};

/// Calls f(address) for K and V of every block of every layer.
template <class F>
void for_each_part(lesson03::PagedKvCache& cache, F f) {
  for (int layer = 0; layer < cache.num_layers(); ++layer) {
    for (int id = 0; id < cache.num_blocks(); ++id) {
      f(cache.block(layer, id).k);
      f(cache.block(layer, id).v);
    }
  }
}

inline size_t part_bytes(const lesson03::PagedKvCache& cache) {
  return static_cast<size_t>(cache.bytes_per_block() / cache.num_layers() / 2);
}

inline Bytes read(const void* at, size_t bytes, const kv::Stream& stream) {
  Bytes host(bytes);
  kv::copy_to_host(host.data(), at, bytes, stream);
  return host;
}

inline Bytes write_random(void* at, size_t bytes, uint64_t seed, const kv::Stream& stream) {
  std::mt19937_64 rng(seed);
  Bytes host(bytes);
  for (unsigned char& byte : host) byte = static_cast<unsigned char>(rng());
  kv::copy_to_device(at, host.data(), bytes, stream);
  return host;
}

inline Contents fill_randomly(lesson03::PagedKvCache& cache, const kv::Stream& stream) {
  Contents all;
  for_each_part(cache, [&](void* at) {
    all.parts.push_back(write_random(at, part_bytes(cache), all.parts.size(), stream));
  });
  return all;
}

inline Contents contents(lesson03::PagedKvCache& cache, const kv::Stream& stream) {
  Contents all;
  for_each_part(cache, [&](void* at) { all.parts.push_back(read(at, part_bytes(cache), stream)); });
  return all;
}

/// Three layers of 9 blocks, two lists of copies, the second longer than the first and reading what
/// the first wrote. Then every byte of the cache is compared.
inline void check_copies_of(int kv_heads, int head_dim, int block_size, const kv::Stream& stream) {
  CAPTURE(kv_heads);
  CAPTURE(head_dim);
  CAPTURE(block_size);
  for (const int guard_rows : {1, 0}) {
    CAPTURE(guard_rows);
    lesson03::PagedKvCache cache(kvtest::shape(3, kv_heads, head_dim), stream, 9, block_size,
                                 guard_rows);
    Contents wanted = fill_randomly(cache, stream);
    const std::vector<std::vector<lesson05::BlockCopy>> lists{{{6, 0}},
                                                              {{0, 8}, {2, 5}, {0, 3}, {4, 7}}};
    for (const auto& copies : lists) {
      lesson05::copy_blocks({.cache = &cache, .copies = copies}, stream);
      for (const lesson05::BlockCopy& copy : copies) wanted.copy(cache, copy);
    }
    CHECK(contents(cache, stream) == wanted);
    CHECK(lesson03_test::touched_guard(cache, stream) == "");
  }
}

/// A request whose samples differ.
inline kv::Request hot_request(int prompt, int max_tokens) {
  kv::Request request = kvtest::request_of(prompt, max_tokens);
  request.sampling = {.temperature = 1.5f, .seed = 7};
  return request;
}

inline kv::GenerateResult sample(lesson05::SharingEngine& engine, const kv::Request& request, int n,
                                 const kv::TokenCallback& on_token = {}) {
  return engine.generate(kv::samples_of(request, n), on_token);
}

}  // namespace lesson05_test
