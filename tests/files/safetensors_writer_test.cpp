#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "qwen3/safetensors.h"
#include "tests/files/any_list.h"
#include "tests/files/support.h"

using namespace kv;
using namespace kv::testing;

namespace {

std::vector<std::string> files_in(const std::filesystem::path& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

// While it lives no file may grow beyond `bytes`: what a full disk looks like to write(2), without
// filling one.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_{};
  void (*old_handler_)(int) = nullptr;
};

}  // namespace

TEST_CASE("safetensors: what is written is read back") {
  static const std::vector<std::pair<std::string, size_t>> kTypes{
      {"U8", 1}, {"BF16", 2}, {"F16", 2}, {"F32", 4}, {"I64", 8}};
  const auto read_back = [](const std::vector<uint64_t>& numbers) {  // one for each tensor
    const TempDir dir;
    const auto path = dir.path() / "t.safetensors";
    std::vector<std::string> data(numbers.size());
    std::vector<TensorToWrite> tensors;
    for (size_t i = 0; i < numbers.size(); ++i) {
      kvtest::Random random(numbers[i]);
      const auto& [dtype, size] = kTypes[static_cast<size_t>(random.below(kTypes.size()))];
      std::vector<int64_t> shape(
          static_cast<size_t>(random.below(6)));  // of any rank, memory may not suffice
      size_t bytes = size;
      for (int64_t& n : shape) bytes *= static_cast<size_t>(n = random.below(5));
      data[i].resize(bytes);
      for (char& byte : data[i]) byte = static_cast<char>(random.next());
      std::string letters(static_cast<size_t>(random.below(20)), 'a');
      for (char& letter : letters) letter = static_cast<char>('a' + random.below(4));
      tensors.push_back({std::to_string(i) + letters, dtype, shape, data[i].data(), bytes});
    }
    write_safetensors(path, tensors);
    const SafetensorsFile file = SafetensorsFile::open(path);
    return file.tensors().size() == tensors.size() &&
           std::all_of(tensors.begin(), tensors.end(),
                       [&](const TensorToWrite& t) {
                         const TensorView& view = file.tensors().at(t.name);
                         return view.dtype == t.dtype && view.shape == t.shape &&
                                view.bytes == t.bytes &&
                                std::memcmp(view.data, t.data, t.bytes) == 0;
                       }) &&
           files_in(dir.path()) == std::vector<std::string>{"t.safetensors"};
  };
  CHECK(kvtest::wrong_list(kvtest::any_number, read_back) == "");
}

TEST_CASE("safetensors: data begins at a multiple of 8 bytes") {
  const TempDir dir;
  const auto path = dir.path() / "t.safetensors";
  const std::string data = "12345678";
  for (const std::string name : {"a", "ab", "abc", "abcdefgh"}) {
    write_safetensors(path, {{name, "I64", {1}, data.data(), 8}});
    const SafetensorsFile file = SafetensorsFile::open(path);
    CHECK((file.file_bytes() - 8) % 8 == 0);
  }
}

TEST_CASE("safetensors: writing into a folder that is not there is refused") {
  const TempDir dir;
  const auto path = dir.path() / "none" / "t.safetensors";
  CHECK(contains(user_error_of([&] { write_safetensors(path, {}); }),
                 "creating failed: No such file"));
}

TEST_CASE("safetensors: renaming onto a folder fails and leaves nothing") {
  const TempDir dir;
  const auto path = dir.path() / "t.safetensors";
  std::filesystem::create_directories(path / "inside");
  CHECK(contains(user_error_of([&] { write_safetensors(path, {}); }), "renaming failed"));
  CHECK(files_in(dir.path()) == std::vector<std::string>{"t.safetensors"});
}

TEST_CASE("safetensors: a disk that fills up leaves the old file and nothing else") {
  const TempDir dir;
  const auto path = dir.write("t.safetensors", "the old file");
  const std::string data(1 << 20, 'x');
  std::string error;
  {
    const FileSizeLimit full(1 << 16);
    error = user_error_of([&] {
      write_safetensors(path, {{"a", "U8", {1 << 20}, data.data(), data.size()}});
    });
  }
  CHECK(contains(error, "writing failed"));
  CHECK(files_in(dir.path()) == std::vector<std::string>{"t.safetensors"});
  CHECK(std::filesystem::file_size(path) == 12);
}

TEST_CASE("safetensors: a writer that is dropped leaves nothing") {
  const TempDir dir;
  {
    SafetensorsWriter writer(dir.path() / "t.safetensors", {{"a", "U8", {4}}});
    writer.write("12", 2);
  }
  CHECK(files_in(dir.path()).empty());
}

TEST_CASE("safetensors: too many or too few bytes are the caller's error") {
  const TempDir dir;
  SafetensorsWriter writer(dir.path() / "t.safetensors", {{"a", "U8", {4}}});
  writer.write("12", 2);
  CHECK_THROWS_AS(writer.finish(), std::logic_error);
  CHECK_THROWS_AS(writer.write("123", 3), std::logic_error);
  writer.write("34", 2);
  writer.finish();
  CHECK(SafetensorsFile::open(dir.path() / "t.safetensors").tensors().size() == 1);
}

TEST_CASE("safetensors: names and sizes are checked before a file is made") {
  const TempDir dir;
  const auto path = dir.path() / "t.safetensors";
  const TensorToWrite a{"a", "U8", {4}, "1234", 4};
  CHECK(contains(user_error_of([&] { write_safetensors(path, {a, a}); }), "there twice"));
  const auto refused = [&](const TensorToWrite& tensor, const char* said) {
    CHECK(contains(user_error_of([&] { write_safetensors(path, {tensor}); }), said));
  };
  refused({"a", "U8", {4}, "12", 2}, "2 bytes given, wanted 4");
  refused({"a", "U7", {4}, "1234", 4}, "unknown dtype");
  refused({"a", "U8", {-4}, "1234", 4}, "negative extent");
  refused({"\xFF", "U8", {4}, "1234", 4}, "not UTF-8");
  CHECK(files_in(dir.path()).empty());
}
