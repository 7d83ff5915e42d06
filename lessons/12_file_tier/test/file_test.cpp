// A file of blocks: the blocks that come back from it, files that are refused, and the cost of
// damage.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <initializer_list>
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
    CHECK(numbers_in(file).empty());
    for (const int32_t record : {2, 1, 4}) CHECK(write(file, record, block_of(10 + record)));
    CHECK(write(file, 2, block_of(22)));
    CHECK(numbers_in(file) == Numbers{11, 22, 0, 14});
    CHECK(file.sync());
  }
  CHECK(numbers_in(open()) == Numbers{11, 22, 0, 14});
}

TEST_CASE_FIXTURE(FileTest, "a header of more than one page comes back") {
  const FileShape shape{.fingerprint = 1, .block_size = 2000, .bytes_per_block = 72};
  BlockFile file = open(shape);
  for (const int32_t record : {1, 2}) CHECK(write(file, record, block_of(record, shape)));
  CHECK(numbers_in(file) == Numbers{1, 2});
}

TEST_CASE_FIXTURE(FileTest, "a file of another shape is refused, and both are named") {
  { CHECK(write(*std::make_unique<BlockFile>(path(), kShape), 1, block_of(1))); }
  const std::string ours = "2 tokens and 72 bytes with fingerprint 1122334455667788";
  const auto refused = [&](const FileShape& shape, const std::string& theirs) {
    check_refused({path(), "holds blocks of " + ours + ", wanted blocks of " + theirs, "remove it"},
                  shape);
  };
  refused({.fingerprint = 1, .block_size = 2, .bytes_per_block = 72},
          "2 tokens and 72 bytes with fingerprint 0000000000000001");
  refused({.fingerprint = kShape.fingerprint, .block_size = 3, .bytes_per_block = 72},
          "3 tokens and 72 bytes with fingerprint 1122334455667788");
  refused({.fingerprint = kShape.fingerprint, .block_size = 2, .bytes_per_block = 80},
          "2 tokens and 80 bytes with fingerprint 1122334455667788");
  refused({.fingerprint = kShape.fingerprint, .block_size = 2, .bytes_per_block = 72, .format = 1},
          "2 tokens and 72 bytes in FP8 with fingerprint 1122334455667788");
  CHECK(numbers_in(open()) == Numbers{1});
}

TEST_CASE("a file's header names the format, and has zeros there unless it is FP8") {
  Bytes header = lesson12::encode_file_header(kShape);
  CHECK(std::ranges::count(std::span(header).subspan(32), std::byte{}) == kPage - 32);
  FileShape fp8 = kShape;
  fp8.format = 1;
  header[32] = std::byte{1};
  CHECK(lesson12::encode_file_header(fp8) == header);
}

TEST_CASE_FIXTURE(FileTest, "what is no file of blocks is refused") {
  std::ofstream(path()) << "Dear diary, this is not for you.";
  check_refused({"KVBLOCK3'; give another path"});
  put_bytes(path(), Bytes(static_cast<size_t>(kPage) + 1));  // zeros, but one too many
  check_refused({"KVBLOCK3"});
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
  for (const int64_t size : {int64_t{0}, int64_t{512}, kPage}) {
    put_bytes(path(), Bytes(size));
    CHECK(write(*std::make_unique<BlockFile>(path(), kShape), 1, block_of(1)));
    CHECK(numbers_in(open()) == Numbers{1});
  }
}

TEST_CASE_FIXTURE(FileTest, "a file that is open is not opened once more") {
  auto file = std::make_unique<BlockFile>(path(), kShape);
  CHECK(write(*file, 1, block_of(1)));
  check_refused({path(), "is in use"});
  const auto open_it = [&] {
    try {
      return open().num_records();
    } catch (const kv::UserError&) {
      return 100;
    }
  };
  CHECK(in_a_child([&] {  // its own file: a child has its parent's open files, and their locks
          return open_it();
        }) == 100);
  file.reset();
  CHECK(in_a_child(open_it) == 1);
  CHECK(numbers_in(open()) == Numbers{1});
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
  CHECK(numbers_in(open()) == Numbers{0, 2, 0, 4});
  CHECK(write(*std::make_unique<BlockFile>(path(), kShape), 1, block_of(1)));
  CHECK(fs::file_size(path()) == size);
  CHECK(numbers_in(open()) == Numbers{1, 2, 0, 4});
}

TEST_CASE_FIXTURE(FileTest, "a record that was erased does not come back, and the others stay") {
  {
    BlockFile file = open();
    for (const int32_t record : {1, 2}) CHECK(write(file, record, block_of(record)));
    CHECK(file.erase(1));
  }
  CHECK(numbers_in(open()) == Numbers{0, 2});
}

TEST_CASE_FIXTURE(FileTest, "a file that was cleared for new weights is the new model's") {
  FileShape other = kShape;
  other.fingerprint = 7;
  {
    BlockFile file = open();
    for (const int32_t record : {1, 2, 3}) CHECK(write(file, record, block_of(record)));
    file.clear(other.fingerprint);
    CHECK(numbers_in(file).empty());
    CHECK(write(file, 2, block_of(20)));
  }
  CHECK_THROWS_AS(open(), kv::UserError);
  CHECK(numbers_in(BlockFile(path(), other)) == Numbers{0, 20});
}

TEST_CASE_FIXTURE(FileTest, "a file that was cut has the records before the cut") {
  {
    BlockFile file = open();
    for (const int32_t record : {1, 2, 3}) CHECK(write(file, record, block_of(record)));
  }
  const Bytes whole = bytes_of(path());
  CHECK(std::ssize(whole) == kPage + 2 * kRecord + kPage + kShape.bytes_per_block);
  std::vector<int64_t> cuts;
  for (int64_t end = kPage; end <= kPage + 3 * kRecord; end += kPage) {
    for (int64_t near = -74; near <= 74; ++near) cuts.push_back(end + near);
  }
  kvtest::Random random(1);
  for (int i = 0; i < 200; ++i) cuts.push_back(48 + random.below(whole.size()));
  for (const int64_t cut : cuts) {
    const int64_t size = std::min(cut, static_cast<int64_t>(whole.size()));
    put_bytes(path(), std::span(whole).first(size));
    const BlockFile file = open();
    for (int32_t record = 1; record <= 3; ++record) {
      const int64_t end = kPage + (record - 1) * kRecord + kPage + kShape.bytes_per_block;
      CAPTURE(cut);
      const int64_t number = number_in(file, record);
      if (end <= size) REQUIRE(number == record);
      if (end > size) REQUIRE(number <= 0);
      Block block = block_of(record);  // has the right bytes, which are not from the file
      REQUIRE(file.read_content(record, block.record, block.content) == (end <= size));
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
  const size_t padding = 2 * kPage + kShape.bytes_per_block;
  for (size_t at = kPage; at < padding; ++at) {
    for (int bit = 0; bit < 8; ++bit) flipped(at, bit, [&] { REQUIRE(number_in(file, 1) <= 0); });
  }
  flipped(padding, 0, [&] { CHECK(number_in(file, 1) == 1); });
  flipped(kPage + 100, 0, [&] { CHECK(number_in(file, 2) == 2); });
  ::close(fd);
  CHECK(number_in(file, 1) == 1);
}

TEST_CASE("any flipped bit of a file's header is noticed when it is opened") {
  Bytes header = lesson12::encode_file_header(kShape);
  REQUIRE(lesson12::fault_of_file_header(header, kShape).empty());
  for (size_t bit = 0; bit < 8 * 32; ++bit) {
    header[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    CHECK_FALSE(lesson12::fault_of_file_header(header, kShape).empty());
    header[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
}

TEST_CASE("a header with the right checksum and absurd numbers is no header") {
  const Bytes good = lesson12::encode_header(block_of(5).record, kPage);
  const auto decoded = [&](size_t at, uint64_t value) {
    Bytes bytes = good;
    std::memcpy(&bytes[at], &value, sizeof value);
    const uint64_t checksum = kv::xxh64(std::span(bytes).subspan(16));
    std::memcpy(&bytes[8], &checksum, sizeof checksum);
    return lesson12::decode_header(bytes, 2).has_value();
  };
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  CHECK(decoded(24, 0));
  for (const size_t at : std::initializer_list<size_t>{24, 40, 56}) {
    // Age, prefix and parent: there would be no next one.
    CHECK_FALSE(decoded(at, kHuge));
    CHECK_FALSE(decoded(at, kHuge >> 1));
  }
  CHECK_FALSE(decoded(48, 2));
  CHECK_FALSE(decoded(48, 0));  // no parent, and a number of it
  CHECK_FALSE(lesson12::decode_header(std::span(good).first(71), 2));
}

TEST_CASE_FIXTURE(FileTest, "a file of blocks without bytes, or of too many, is a mistake") {
  CHECK_THROWS_AS(open({.block_size = 0, .bytes_per_block = 8}), std::invalid_argument);
  CHECK_THROWS_AS(open({.block_size = 2, .bytes_per_block = 0}), std::invalid_argument);
  CHECK_THROWS_AS(open({.block_size = 2, .bytes_per_block = int64_t{1} << 53}),
                  std::invalid_argument);
  CHECK_FALSE(fs::exists(path()));
  BlockFile file = open();
  Block block = block_of(1);
  REQUIRE(write(file, 1, block));
  CHECK_THROWS_AS(write(file, 0, block), std::invalid_argument);
  block.content.resize(64);
  CHECK_THROWS_AS(write(file, 1, block), std::invalid_argument);
  CHECK_THROWS_AS(file.read_content(1, block.record, block.content), std::invalid_argument);
  block = block_of(1);
  block.record.tokens.pop_back();
  CHECK_THROWS_AS(write(file, 1, block), std::invalid_argument);
  CHECK(number_in(file, 1) == 1);  // a wrong call costs no record
}

TEST_CASE_FIXTURE(FileTest,
                  "a content is written with the checksum that it had when it was computed") {
  BlockFile file = open();
  Block block = block_of(1);
  block.content[5] ^= std::byte{1};  // a bit has flipped before the write
  REQUIRE(write(file, 1, block));
  const auto header = file.read_header(1);
  REQUIRE(header.has_value());
  CHECK(header->content_checksum == block.record.content_checksum);
  CHECK_FALSE(file.read_content(1, *header, block.content));
  block = block_of(1);
  REQUIRE(write(file, 1, block));
  CHECK(file.read_content(1, block.record, block.content));
  CHECK_FALSE(file.read_content(1, block_of(2).record, block.content));  // of another content
}
