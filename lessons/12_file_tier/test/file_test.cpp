// A file of blocks: the blocks that come back from it, files that are refused, and the cost of
// damage.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <string>

#include "block_files.h"
#include "common/error.h"
#include "common/hash.h"

namespace {

using namespace lesson12_test;
using lesson12::kPage;
namespace fs = std::filesystem;
using Numbers = std::vector<int64_t>;

class FileTest {
 public:
  fs::path path() const { return dir_.path() / "blocks.kv"; }
  BlockFile open(const FileShape& shape = kShape) const { return BlockFile(path(), shape); }
  /// Checks that the file is refused with a message that says all of `words`, and is unchanged.
  void check_refused(const std::vector<std::string>& words, const FileShape& shape = kShape) const {
    const Bytes before = bytes_of(path());
    std::string message;
    try {
      open(shape);
    } catch (const kv::UserError& error) {
      message = error.what();
    }
    INFO(message);
    for (const std::string& word : words) CHECK(message.find(word) != std::string::npos);
    CHECK(bytes_of(path()) == before);
  }

 private:
  kvtest::TempDir dir_;
};

/// Runs f in a child process, which may hold a lock or change its user, and returns the exit code.
template <class F>
int in_a_child(const F& f) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(f());
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE_FIXTURE(FileTest, "blocks come back, also after the file was opened again") {
  {
    BlockFile file = open();
    CHECK(numbers_found(file) == Numbers{0});
    for (const int32_t record : {2, 1, 4}) CHECK(write(file, record, block_of(10 + record)));
    CHECK(write(file, 2, block_of(22)));
    for (const int64_t number : {11, 22, 14}) {
      const Block block = block_of(number);
      CHECK(read(file, static_cast<int32_t>(number % 10), block.key) == block.content);
    }
    CHECK_FALSE(read(file, 2, block_of(12).key));  // it was overwritten
    CHECK_FALSE(read(file, 3, block_of(13).key));
    CHECK(file.sync());
  }
  BlockFile file = open();
  CHECK(numbers_found(file) == Numbers{0, 11, 22, 0, 14});
  for (const int32_t record : {1, 2, 4}) {
    const RecordKey& key = *file.found()[static_cast<size_t>(record)];
    const Block block = block_of(key.prefix);
    CHECK(key.parent == block.key.parent);
    CHECK(key.tokens == block.key.tokens);
    CHECK(key.extra_keys == block.key.extra_keys);
    CHECK(read(file, record, key) == block.content);
  }
}

TEST_CASE_FIXTURE(FileTest, "ages grow with every write, from opening to opening") {
  const auto age = [](const BlockFile& file, size_t record) { return file.found()[record]->age; };
  {
    BlockFile file = open();
    for (const int32_t record : {1, 2, 1}) CHECK(write(file, record, block_of(record)));
  }
  {
    BlockFile file = open();
    CHECK(age(file, 2) < age(file, 1));
    CHECK(write(file, 3, block_of(3)));
    CHECK(write(file, 2, block_of(4)));
  }
  const BlockFile file = open();
  CHECK(age(file, 1) < age(file, 3));
  CHECK(age(file, 3) < age(file, 2));
}

TEST_CASE_FIXTURE(FileTest, "a record is read as nothing but the block that it holds") {
  BlockFile file = open();
  const Block block = block_of(7);
  REQUIRE(write(file, 1, block));
  REQUIRE(read(file, 1, block.key));
  const auto refused = [&](auto change) {
    RecordKey key = block.key;
    change(key);
    return !read(file, 1, key);
  };
  CHECK(refused([](RecordKey& key) { ++key.hash; }));
  CHECK(refused([](RecordKey& key) { ++*key.parent; }));
  CHECK(refused([](RecordKey& key) { key.parent.reset(); }));
  CHECK(refused([](RecordKey& key) { ++key.tokens.back(); }));
  CHECK(refused([](RecordKey& key) { key.extra_keys.pop_back(); }));
  CHECK(refused([](RecordKey& key) { ++key.extra_keys[0].offset; }));
  CHECK(refused([](RecordKey& key) { key.extra_keys[1].value += 'x'; }));
  CHECK(refused([](RecordKey& key) { key.extra_keys[1].kind = ExtraKey::Kind::kAdapter; }));
}

TEST_CASE_FIXTURE(FileTest, "a file of another shape is refused, and both are named") {
  { CHECK(write(*std::make_unique<BlockFile>(path(), kShape), 1, block_of(1))); }
  check_refused({path(), "fingerprint 1122334455667788, wanted 0000000000000001", "remove it"},
                {.fingerprint = 1, .block_size = 2, .bytes_per_block = 72});
  check_refused({"blocks of 2 tokens, wanted 3"},
                {.fingerprint = kShape.fingerprint, .block_size = 3, .bytes_per_block = 72});
  check_refused({"blocks of 72 bytes, wanted 80"},
                {.fingerprint = kShape.fingerprint, .block_size = 2, .bytes_per_block = 80});
  Bytes bytes = bytes_of(path());
  const Bytes whole = bytes;
  bytes[8] = std::byte{1};
  put_bytes(path(), bytes);
  check_refused({"version 1, wanted 2"});
  bytes = whole;
  bytes[17] ^= std::byte{1};
  put_bytes(path(), bytes);
  check_refused({"header is damaged"});
  put_bytes(path(), whole);
  CHECK(numbers_found(open()) == Numbers{0, 1});
}

TEST_CASE_FIXTURE(FileTest, "what is no file of blocks is refused") {
  std::ofstream(path()) << "Dear diary, this is not for you.";
  check_refused({"KVBLOCKS"});
  put_bytes(path(), Bytes(static_cast<size_t>(kPage) + 1));  // zeros, but one too many
  check_refused({"KVBLOCKS"});
  fs::remove(path());
  fs::create_directory(path());
  CHECK_THROWS_AS(open(), kv::UserError);
  fs::remove(path());
  REQUIRE(::mkfifo(path().c_str(), 0666) == 0);
  CHECK_THROWS_WITH_AS(open(), doctest::Contains("not a regular file"), kv::UserError);
  CHECK_THROWS_WITH_AS(BlockFile(path() / "below" / "a file", kShape),
                       doctest::Contains("opening failed"), kv::UserError);
}

TEST_CASE_FIXTURE(FileTest, "a file whose making was interrupted is made again") {
  const Bytes header = lesson12::encode_file_header(kShape);
  for (size_t size = 0; size <= header.size(); ++size) {
    put_bytes(path(), std::span(header).first(size));
    CHECK(numbers_found(open()) == Numbers{0});
  }
  put_bytes(path(), Bytes(static_cast<size_t>(kPage)));
  CHECK(write(*std::make_unique<BlockFile>(path(), kShape), 1, block_of(1)));
  CHECK(numbers_found(open())[1] == 1);
}

TEST_CASE_FIXTURE(FileTest, "a file that is open is not opened once more") {
  auto file = std::make_unique<BlockFile>(path(), kShape);
  CHECK(write(*file, 1, block_of(1)));
  check_refused({path(), "is in use"});
  const auto open_it = [&] {
    try {
      return static_cast<int>(open().found().size());
    } catch (const kv::UserError&) {
      return 100;
    }
  };
  CHECK(in_a_child([&] {  // its own file: a child has its parent's open files, and their locks
          return open_it();
        }) == 100);
  file.reset();
  CHECK(in_a_child(open_it) == 2);
  CHECK(numbers_found(open())[1] == 1);
}

TEST_CASE_FIXTURE(FileTest, "a file that must not be written is refused") {
  { open(); }
  fs::permissions(path(), fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  fs::permissions(path().parent_path(), fs::perms::all);
  const int code = in_a_child([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 1;  // root may write everything
    try {
      open();
    } catch (const kv::UserError& error) {
      return std::string(error.what()).find("opening failed") != std::string::npos ? 3 : 2;
    }
    return 0;
  });
  CHECK(code == 3);
}

TEST_CASE_FIXTURE(FileTest, "a file grows with the records that are written, and is never cut") {
  for (const int32_t record : {2, 4})
    CHECK(write(*std::make_unique<BlockFile>(path(), kShape), record, block_of(record)));
  const auto size = fs::file_size(path());
  CHECK(numbers_found(open()) == Numbers{0, 0, 2, 0, 4});
  CHECK(write(*std::make_unique<BlockFile>(path(), kShape), 1, block_of(1)));
  CHECK(fs::file_size(path()) == size);
  CHECK(numbers_found(open()) == Numbers{0, 1, 2, 0, 4});
}

TEST_CASE_FIXTURE(FileTest, "a record that was erased does not come back, and the others stay") {
  {
    BlockFile file = open();
    for (const int32_t record : {1, 2}) CHECK(write(file, record, block_of(record)));
    CHECK(file.erase(1));
    CHECK_FALSE(read(file, 1, block_of(1).key));
  }
  CHECK(numbers_found(open()) == Numbers{0, 0, 2});
}

TEST_CASE_FIXTURE(FileTest, "what was cleared does not come back") {
  {
    BlockFile file = open();
    for (const int32_t record : {1, 2, 3, 4}) CHECK(write(file, record, block_of(record)));
    file.clear();
    CHECK(numbers_found(file) == Numbers{0});
    for (const int32_t record : {1, 2, 3, 4}) CHECK_FALSE(read(file, record, block_of(record).key));
    CHECK(write(file, 3, block_of(30)));
  }
  CHECK(numbers_found(open()) == Numbers{0, 0, 0, 30});
}

TEST_CASE_FIXTURE(FileTest, "extra keys need room, and without it the record holds nothing") {
  const int64_t room = kPage - 72 - 2 * 4 - 24;  // of one value
  Block block = block_of(6);
  {
    BlockFile file = open();
    block.key.extra_keys = {{ExtraKey::Kind::kSalt, std::string(static_cast<size_t>(room), 's')}};
    CHECK(write(file, 1, block));
    CHECK(read(file, 1, block.key) == block.content);
    CHECK(write(file, 2, block));
    block.key.extra_keys[0].value += 's';
    CHECK_FALSE(write(file, 2, block));
    CHECK_FALSE(read(file, 2, block.key));
    block.key.extra_keys[0].value.pop_back();
    CHECK_FALSE(read(file, 2, block.key));
  }
  const BlockFile file = open();
  CHECK(file.found()[1]->extra_keys == block.key.extra_keys);
  CHECK_FALSE(file.found()[2]);
}

TEST_CASE_FIXTURE(FileTest, "a file that was cut has the records before the cut") {
  {
    BlockFile file = open();
    for (const int32_t record : {1, 2, 3}) CHECK(write(file, record, block_of(record)));
  }
  const Bytes whole = bytes_of(path());
  CHECK(whole.size() == static_cast<size_t>(kPage + 2 * kRecord + kPage + kShape.bytes_per_block));
  std::vector<int64_t> cuts;
  for (int64_t end = kPage; end <= kPage + 3 * kRecord; end += kPage) {
    for (int64_t near = -74; near <= 74; ++near) cuts.push_back(end + near);
  }
  kvtest::Random random(1);
  for (int i = 0; i < 200; ++i) cuts.push_back(48 + random.below(whole.size()));
  for (const int64_t cut : cuts) {
    const int64_t size = std::min(cut, static_cast<int64_t>(whole.size()));
    put_bytes(path(), std::span(whole).first(static_cast<size_t>(size)));
    BlockFile file = open();
    for (int32_t record = 1; record <= 3; ++record) {
      const int64_t end = kPage + (record - 1) * kRecord + kPage + kShape.bytes_per_block;
      CAPTURE(cut);
      const Numbers found = numbers_found(file);
      const auto at = static_cast<size_t>(record);
      REQUIRE((at < found.size() ? found[at] : 0) == (end <= size ? record : 0));
      const Block block = block_of(record);
      if (end <= size) REQUIRE(read(file, record, block.key) == block.content);
    }
  }
}

TEST_CASE_FIXTURE(FileTest, "any flipped bit costs its record, and no other") {
  BlockFile file = open();
  for (const int32_t record : {1, 2}) REQUIRE(write(file, record, block_of(record)));
  const Bytes bytes = bytes_of(path());
  const int fd = ::open(path().c_str(), O_WRONLY | O_CLOEXEC);
  const auto flipped = [&](size_t at, int bit, auto look) {
    const std::byte other = bytes[at] ^ static_cast<std::byte>(1 << bit);
    REQUIRE(::pwrite(fd, &other, 1, static_cast<off_t>(at)) == 1);
    look();
    REQUIRE(::pwrite(fd, &bytes[at], 1, static_cast<off_t>(at)) == 1);
  };
  const Block block = block_of(1);
  const auto padding = static_cast<size_t>(2 * kPage + kShape.bytes_per_block);
  for (size_t at = kPage; at < padding; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      flipped(at, bit, [&] { REQUIRE_FALSE(read(file, 1, block.key)); });
    }
  }
  flipped(padding, 0, [&] { CHECK(read(file, 1, block.key) == block.content); });
  flipped(kPage + 100, 0, [&] { CHECK(read(file, 2, block_of(2).key) == block_of(2).content); });
  ::close(fd);
  CHECK(read(file, 1, block.key) == block.content);
}

TEST_CASE("any flipped bit of a header is noticed when a file is opened") {
  Bytes header = lesson12::encode_file_header(kShape);
  REQUIRE(lesson12::fault_of_file_header(header, kShape).empty());
  for (size_t bit = 0; bit < 8 * 48; ++bit) {
    header[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    CHECK_FALSE(lesson12::fault_of_file_header(header, kShape).empty());
    header[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
  Bytes record = *lesson12::encode_record_header({.key = block_of(5).key}, kPage);
  REQUIRE(lesson12::decode_record_header(record, 2).has_value());
  for (size_t bit = 0; bit < 8 * record.size(); ++bit) {
    record[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    REQUIRE_FALSE(lesson12::decode_record_header(record, 2));
    record[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
}

TEST_CASE("a header with the right checksum and absurd numbers is no header") {
  const Bytes good = *lesson12::encode_record_header({.key = block_of(5).key}, kPage);
  const auto decoded = [&](size_t at, uint64_t value, size_t size = 8) {
    Bytes bytes = good;
    for (size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i));
    const uint64_t checksum = kv::xxh64(std::span(bytes).subspan(16));
    for (size_t i = 0; i < 8; ++i) bytes[8 + i] = static_cast<std::byte>(checksum >> (8 * i));
    return lesson12::decode_record_header(bytes, 2).has_value();
  };
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  constexpr size_t kExtra = 72 + 2 * 4;  // the first extra key
  CHECK(decoded(24, 0));
  CHECK_FALSE(decoded(24, kHuge));  // age: there would be no next one
  CHECK_FALSE(decoded(40, 2));
  CHECK_FALSE(decoded(40, 0));  // no parent, and a number of it
  CHECK_FALSE(decoded(48, kHuge >> 1));
  CHECK_FALSE(decoded(56, kHuge >> 1));
  CHECK_FALSE(decoded(64, kHuge));
  CHECK_FALSE(decoded(64, 1000));
  CHECK_FALSE(decoded(kExtra, 0));
  CHECK_FALSE(decoded(kExtra, 4));
  CHECK_FALSE(decoded(kExtra + 16, kHuge));
  CHECK_FALSE(decoded(kExtra + 16, kPage - kExtra - 23));
}

TEST_CASE_FIXTURE(FileTest, "a file of blocks without bytes, or of too many, is a mistake") {
  CHECK_THROWS_AS(open({.block_size = 0, .bytes_per_block = 8}), std::invalid_argument);
  CHECK_THROWS_AS(open({.block_size = 2, .bytes_per_block = 0}), std::invalid_argument);
  CHECK_THROWS_AS(open({.block_size = 2, .bytes_per_block = int64_t{1} << 53}),
                  std::invalid_argument);
  CHECK_FALSE(fs::exists(path()));
  BlockFile file = open();
  Block block = block_of(1);
  CHECK_THROWS_AS(write(file, 0, block), std::out_of_range);
  block.content.resize(64);
  CHECK_THROWS_AS(write(file, 1, block), std::invalid_argument);
  block = block_of(1);
  block.key.tokens.pop_back();
  CHECK_THROWS_AS(write(file, 1, block), std::invalid_argument);
}
