#pragma once

// Blocks made from a number: the right content of a block of a file follows from its prefix.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "block_file.h"
#include "checksum_blocks.h"
#include "tests/support/shortened.h"
#include "tests/support/temp_dir.h"

namespace lesson12_test {

using lesson12::BlockFile;
using lesson12::BlockKey;
using lesson12::ExtraKey;
using lesson12::FileShape;
using lesson12::RecordKey;
using Bytes = std::vector<std::byte>;

constexpr FileShape kShape{
    .fingerprint = 0x1122334455667788, .block_size = 2, .bytes_per_block = 72};
constexpr int64_t kRecord = 2 * lesson12::kPage;  // a header and a content of this shape, padded

struct Block {
  RecordKey key;
  Bytes content;
};

inline Block block_of(int64_t number, const FileShape& shape = kShape) {
  kvtest::Random random(static_cast<uint64_t>(number));
  Block block;
  block.key.hash = random.next();
  if (number % 3 != 0) block.key.parent = number - 1;
  block.key.prefix = number;
  for (int i = 0; i < shape.block_size; ++i) {
    block.key.tokens.push_back(static_cast<int32_t>(random.next()));  // negative ones, too
  }
  if (number % 2 != 0) {
    block.key.extra_keys = {{ExtraKey::Kind::kContent, std::string("\0image", 6), number},
                            {ExtraKey::Kind::kSalt, std::to_string(number), 0}};
  }
  for (int64_t i = 0; i < shape.bytes_per_block; ++i) {
    block.content.push_back(static_cast<std::byte>(random.next()));
  }
  return block;
}

inline bool write(BlockFile& file, int32_t record, const Block& block) {
  return file.write(record, block.key.key(), block.content, lesson12::checksum_of(block.content));
}

/// The content that is read; empty if the read fails.
inline std::optional<Bytes> read(BlockFile& file, int32_t record, const RecordKey& key) {
  Bytes content(static_cast<size_t>(file.shape().bytes_per_block));
  if (!file.read(record, key.key(), content)) return std::nullopt;
  return content;
}

/// The number of the block that has this key; empty if none has it.
inline std::optional<int64_t> number_of(const RecordKey& key, const FileShape& shape = kShape) {
  Block block = block_of(key.prefix, shape);
  const bool same = block.key.hash == key.hash && same_content(block.key.key(), key.key());
  return same ? std::optional(key.prefix) : std::nullopt;
}

/// The numbers of the blocks found, by record; 0 means none, -1 a wrong key.
inline std::vector<int64_t> numbers_found(const BlockFile& file) {
  std::vector<int64_t> numbers;
  for (const auto& key : file.found()) {
    numbers.push_back(key ? number_of(*key, file.shape()).value_or(-1) : 0);
  }
  return numbers;
}

inline Bytes bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}
inline void put_bytes(const std::filesystem::path& path, std::span<const std::byte> bytes) {
  std::filesystem::remove(path);  // a file that is cut and written again goes to the disk at once
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  REQUIRE(out.good());
}

}  // namespace lesson12_test
