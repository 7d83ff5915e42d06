// ./course watch as a user runs it, on recordings that are right and that are not.

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "instruments/watch/recording.h"
#include "tests/support/shell.h"

using kvtest::check_refused;
using kvtest::shell;
using nlohmann::json;

namespace {

const std::string kExample = "$S/instruments/watch/example.kvevents";

}  // namespace

TEST_CASE("watch: the example as text and as JSON") {
  const auto out = shell("$B/watch " + kExample + " --model $S/models/tiny");
  CAPTURE(out.err);
  CHECK(out.code == 0);
  CHECK(out.err.empty());
  CHECK(out.out.find("nothing missing") != std::string::npos);
  CHECK(out.out.find("Once upon") != std::string::npos);
  const auto all = shell("$B/watch " + kExample +
                         " --batches --json - --record $T/r 2>$T/text && cmp $T/r " + kExample);
  REQUIRE(all.code == 0);
  const json document = json::parse(all.out);
  CHECK(document["complete"] == true);
  CHECK(document["blocks_that_came_again"] > 0);
  CHECK(document["blocks_stored"].get<int>() - document["blocks_evicted"].get<int>() ==
        document["blocks_standing"]);
  int64_t longest = INT64_MAX;
  for (const json& prefix : document["prefixes"]) {
    CHECK(prefix["tokens"].get<int64_t>() <= longest);
    longest = prefix["tokens"];
    CHECK(prefix["has_head"] == true);
  }
}

TEST_CASE("watch: lost and damaged frames are told, and the rest is read") {
  const auto cut = shell("head -c 1000 " + kExample + " >$T/r && $B/watch $T/r");
  CHECK(cut.code == 0);
  CHECK(cut.out.find("ends in the middle of a frame") != std::string::npos);
  const kvtest::TempDir dir;
  const std::string damaged = (dir.path() / "r").string();
  {
    using namespace watch;
    RecordingReader reader(KV_SOURCE_DIR "/instruments/watch/example.kvevents");
    RecordingWriter writer(damaged);
    Frame frame;
    while (reader.next(frame)) {
      if (frame.seq == 9) frame.payload[0] = '\xc1';
      if (frame.seq < 5 || frame.seq > 7) writer.send(frame);
    }
  }
  const auto made = shell("$B/watch " + damaged + " --json $T/j && cat $T/j");
  CAPTURE(made.err);
  CHECK(made.code == 0);
  CHECK(made.out.find("! 3 batches are missing before number 8") != std::string::npos);
  CHECK(made.out.find("! batch 9 makes no sense") != std::string::npos);
  CHECK(made.out.find("the cache may hold other blocks") != std::string::npos);
  CHECK(made.out.find(R"("missing_batches": 3)") != std::string::npos);
}

TEST_CASE("watch: of a block of any size the beginning is shown, at once") {
  const kvtest::TempDir dir;
  const std::string recording = (dir.path() / "r").string();
  constexpr int kTokens = 65'536;
  const watch::BlockStored stored{.block_hashes = {watch::hash_of(1)},
                                  .token_ids = std::vector<int32_t>(kTokens, INT32_MAX),
                                  .block_size = kTokens};
  watch::RecordingWriter(recording).send({.payload = watch::encode({.ts = 1, .events = {stored}})});
  const auto out = shell("timeout 10 $B/watch " + recording);
  CHECK(out.code == 0);
  CHECK(out.out.find("2147483647 2147483647 2147483647 21474836..  ") != std::string::npos);
}

TEST_CASE("watch: no option writes over the recording that is read, or made") {
  const std::string same = "cp " + kExample + " $T/day && cd $T && ln -s day link && ln day hard; ";
  for (const char* name : {"day", "./day", "link", "hard", "$T/day"}) {
    for (const char* option : {" --record ", " --json "}) {
      CAPTURE(name);
      CAPTURE(option);
      check_refused(shell(same + "$B/watch day" + option + name), "would replace day, which");
      CHECK(shell(same + "$B/watch day" + option + name + "; cmp day " + kExample).code == 0);
    }
  }
  check_refused(shell(same + "$B/watch day --record new --json new"), "would replace new, which");
  // Nor does a source that cannot be watched cost another recording.
  const std::string other = same + "$B/watch $S/README.md --record day; cmp day " + kExample;
  CHECK(shell(other).code == 0);
}

TEST_CASE("watch: where nothing came it does not say that nothing is missing") {
  const auto out =
      shell("head -c 25 " + kExample + " >$T/r && $B/watch $T/r --json $T/j && cat $T/j");
  CHECK(out.code == 0);
  CHECK(out.out.find("nothing missing") == std::string::npos);
  CHECK(out.out.find("nothing came") != std::string::npos);
  CHECK(out.out.find("\"complete\": false") != std::string::npos);
}

TEST_CASE("watch: what cannot be watched is refused") {
  check_refused(shell("$B/watch $T/none"), "none: cannot be read: No such file or directory");
  check_refused(shell("$B/watch $S/README.md"), "not a recording of KV events");
  check_refused(shell("$B/watch"), "WHAT is required");
  check_refused(shell("$B/watch foo://bar"), "wanted an address as tcp://");
  check_refused(shell("$B/watch tcp://x:y"),
                "tcp://x:y: not an address; wanted an address as tcp://");
  check_refused(shell("$B/watch " + kExample + " --replay tcp://127.0.0.1:1"), "is a file");
  CHECK(shell("$B/watch --help").code == 0);
}
