// Recordings: what was written is read, and a cut one as far as it goes.

#include "instruments/watch/recording.h"

#include <doctest/doctest.h>

#include <fstream>

#include "common/error.h"
#include "tests/support/shell.h"

namespace {

using namespace watch;

std::vector<Frame> frames_of(const std::filesystem::path& file, bool* is_cut = nullptr) {
  RecordingReader reader(file);
  std::vector<Frame> frames;
  Frame frame;
  while (reader.next(frame)) frames.push_back(frame);
  if (is_cut != nullptr) *is_cut = reader.is_cut();
  return frames;
}

void write(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

}  // namespace

TEST_CASE("recording: cut at any byte, all whole frames are read") {
  const kvtest::TempDir dir;
  const auto file = dir.path() / "r", cut = dir.path() / "cut";
  const std::vector<Frame> frames{{7, "first"}, {8, ""}, {kMaxSeq, std::string(300, '\0')}};
  std::vector<size_t> ends;
  {
    RecordingWriter writer(file);
    for (const Frame& frame : frames) {
      ends.push_back(kvtest::text_of(file).size());
      writer.send(frame);
    }
  }
  const std::string all = kvtest::text_of(file);
  ends.push_back(all.size());
  for (size_t size = 1; size <= all.size(); ++size) {
    write(cut, all.substr(0, size));
    bool is_cut = false;
    const auto read = frames_of(cut, &is_cut);
    const auto whole =
        std::count_if(ends.begin(), ends.end(), [&](size_t end) { return end <= size; }) - 1;
    REQUIRE(std::ssize(read) == std::max<std::ptrdiff_t>(whole, 0));
    for (size_t i = 0; i < read.size(); ++i) {
      CHECK(read[i].seq == frames[i].seq);
      CHECK(read[i].payload == frames[i].payload);
    }
    CHECK(is_cut == (std::find(ends.begin(), ends.end(), size) == ends.end()));
  }
}

TEST_CASE("recording: other files and damaged lengths are refused, with what is wrong") {
  const kvtest::TempDir dir;
  const auto file = dir.path() / "r";
  for (const char* other : {"", "x", "page-by-page kv-events 2\n", "page-by-page kv-eventsx"}) {
    write(file, other);
    CHECK_THROWS_WITH_AS(frames_of(file), doctest::Contains("not a recording of KV events"),
                         kv::UserError);
  }
  CHECK_THROWS_WITH_AS(frames_of(dir.path() / "none"), doctest::Contains("No such file"),
                       kv::UserError);
  CHECK_THROWS_WITH_AS(frames_of(dir.path()), doctest::Contains("irectory"), kv::UserError);
  CHECK_THROWS_WITH_AS(RecordingWriter(dir.path() / "no" / "r"), doctest::Contains("No such file"),
                       kv::UserError);
  { RecordingWriter(file).send({0, "x"}); }
  std::string bytes = kvtest::text_of(file);
  bytes[bytes.size() - 5] = '\x7f';
  write(file, bytes);
  CHECK_THROWS_WITH_AS(frames_of(file), doctest::Contains("the file is damaged"), kv::UserError);
  { RecordingWriter(file).send({~uint64_t{0}, "x"}); }
  CHECK_THROWS_WITH_AS(frames_of(file),
                       doctest::Contains("byte 25: a batch with number 18446744073709551615"),
                       kv::UserError);
}
