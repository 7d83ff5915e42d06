// Any bytes as a file of blocks: a UserError of one line and an unchanged file, or records that can
// be read or not, and written over. Once as they are, once with checksums that are right.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "common/error.h"
#include "common/hash.h"
#include "lessons/12_file_tier/block_file.h"
#include "lessons/12_file_tier/checksum_blocks.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace lesson12;
using Bytes = std::vector<std::byte>;
namespace fs = std::filesystem;

constexpr FileShape kShape{.fingerprint = 5, .block_size = 2, .bytes_per_block = 16};
constexpr int kRecords = 2;

fs::path path() {
  static const fs::path folder = fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
  static const fs::path file = folder / ("kv_fuzz_blocks_" + std::to_string(::getpid()));
  return file;
}

Bytes bytes_of_file() {
  std::ifstream in(path(), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

void put_checksum(Bytes& bytes, size_t at, uint64_t checksum) {
  for (size_t i = 0; i < 8; ++i) bytes[at + i] = static_cast<std::byte>(checksum >> (8 * i));
}

/// The same bytes with every checksum that has room.
Bytes with_checksums(Bytes bytes) {
  const FileLayout layout(kShape);
  for (int32_t record = 1; record <= kRecords; ++record) {
    const auto begin = static_cast<size_t>(layout.begin_of(record));
    const auto content = static_cast<size_t>(layout.content_of(record));
    if (bytes.size() < content + 16) break;
    put_checksum(bytes, begin + 16, checksum_of(std::span(bytes).subspan(content, 16)));
    put_checksum(bytes, begin + 8,
                 kv::xxh64(std::span(bytes).subspan(begin + 16, content - begin - 16)));
  }
  return bytes;
}

void open_and_read(const Bytes& bytes) {
  fs::remove(path());
  std::ofstream(path(), std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  Bytes content(16), again(16, std::byte{7});
  Record last;
  try {
    BlockFile file(path(), kShape);
    for (int32_t record = 1; record <= std::min(file.num_records(), 1'000); ++record) {
      const auto found = file.read_header(record);
      if (!found) continue;
      kv::fuzz::require(found->tokens.size() == 2 && found->prefix + 1 > found->prefix &&
                        found->age + 1 > found->age);
      if (!file.read_content(record, *found, content)) continue;
      const auto at = bytes.begin() + FileLayout(kShape).content_of(record);
      kv::fuzz::require(std::equal(content.begin(), content.end(), at));
      last = *found;
    }
    last.tokens = {1, -1};
    last.content_checksum = checksum_of(again);
    kv::fuzz::require(file.write(2, last, again) && file.read_content(2, last, content));
    kv::fuzz::require(content == again);
  } catch (const kv::UserError& error) {
    kv::fuzz::check_message(error.what());
    kv::fuzz::require(bytes_of_file() == bytes);
    return;
  }
  const BlockFile file(path(), kShape);
  const auto found = file.read_header(2);
  kv::fuzz::require(found.has_value() && found->tokens == last.tokens);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Bytes bytes(reinterpret_cast<const std::byte*>(data),
                    reinterpret_cast<const std::byte*>(data) + size);
  open_and_read(bytes);
  open_and_read(with_checksums(bytes));
  return 0;
}
