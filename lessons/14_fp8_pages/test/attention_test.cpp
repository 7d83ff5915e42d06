// Attention over FP8 pages on the CPU.

#include "pages.h"

TEST_CASE("attention over FP8 pages has the bits of lesson 04's over rounded rows") {
  lesson14_test::check_all_pages(kv::Device::kCpu);
}

TEST_CASE("an FP8 cache holds what its kernels are told") {
  const kv::Stream stream(kv::Device::kCpu);
  const kv::ModelConfig config = kvtest::shape(3, 2, 64);
  lesson03::PagedKvCache cache(config, stream, 5, 16, 0, kv::KvFormat::kFp8);
  CHECK(cache.bytes_per_token() == 3 * 2 * (2 * 64 + 2));
  CHECK(cache.bytes_per_block() == 16 * cache.bytes_per_token());
  CHECK(cache.bytes_reserved() == 5 * cache.bytes_per_block());
  const auto first = cache.layer(0), second = cache.layer(1);
  CHECK(static_cast<uint8_t*>(second.k) - static_cast<uint8_t*>(first.k) == 5 * 16 * 2 * 64);
  CHECK(second.scales - first.scales == 5 * 16 * 2 * 2);
  CHECK(lesson03::PagedKvCache(config, stream, 5, 16).layer(0).scales == nullptr);
  // A block of one slot has fewer bytes of scales than a word.
  CHECK(lesson03::PagedKvCache(config, stream, 2, 1, 0, kv::KvFormat::kFp8).bytes_per_block() ==
        3 * (2 * 2 * 64 + 16));
}
