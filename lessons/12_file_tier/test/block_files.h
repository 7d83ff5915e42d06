#pragma once

// Blocks made from a number: the right content of a block of a file follows from its prefix.

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "block_file.h"
#include "checksum_blocks.h"
#include "tests/support/readable.h"
#include "tests/support/shortened.h"
#include "tests/support/temp_dir.h"

namespace lesson12_test {

using lesson12::BlockFile;
using lesson12::FileShape;
using lesson12::Record;
using Bytes = std::vector<std::byte>;

constexpr FileShape kShape{
    .fingerprint = 0x1122334455667788, .block_size = 2, .bytes_per_block = 72};
constexpr int64_t kRecord = 2 * lesson12::kPage;  // a header and a content of this shape, padded

struct Block {
  Record record;
  Bytes content;
};

inline Block block_of(int64_t number, const FileShape& shape = kShape) {
  kvtest::Random random(static_cast<uint64_t>(number));
  Block block;
  Record& record = block.record;
  record.age = static_cast<uint64_t>(number);
  record.hash = random.next();
  if (number % 3 != 0) record.parent = number - 1;
  record.prefix = number;
  for (int i = 0; i < shape.block_size; ++i) {
    record.tokens.push_back(static_cast<int32_t>(random.next()));  // negative ones, too
  }
  for (int64_t i = 0; i < shape.bytes_per_block; ++i) {
    block.content.push_back(static_cast<std::byte>(random.next()));
  }
  record.content_checksum = lesson12::checksum_of(block.content);
  return block;
}

inline bool write(BlockFile& file, int32_t record, const Block& block) {
  return file.write(record, block.record, block.content);
}

/// The number of the block in a record: 0 means none, -1 a header whose content is not there.
/// Whatever is read must be what was written for that block.
inline int64_t number_in(const BlockFile& file, int32_t record) {
  const auto header = file.read_header(record);
  if (!header) return 0;
  const Block block = block_of(header->prefix, file.shape());
  REQUIRE(*header == block.record);
  Bytes content(block.content.size());
  if (!file.read_content(record, *header, content)) return -1;
  REQUIRE(content == block.content);
  return header->prefix;
}
/// The same for records 1, 2, and so on.
inline std::vector<int64_t> numbers_in(const BlockFile& file) {
  std::vector<int64_t> numbers;
  for (int32_t record = 1; record <= file.num_records(); ++record) {
    numbers.push_back(number_in(file, record));
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
