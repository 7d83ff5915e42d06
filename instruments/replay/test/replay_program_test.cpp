// ./course replay as a user runs it: files that are right, and files that are not.

#include <doctest/doctest.h>
#include <zlib.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "common/error.h"
#include "instruments/replay/trace/trace_line.h"
#include "tests/support/shell.h"

namespace {

using kvtest::check_refused;
using kvtest::Outcome;
using kvtest::shell;
using nlohmann::json;
using replay::parse_trace_line;
using replay::TraceLine;

const std::string kExample = "$S/instruments/replay/example.jsonl";
constexpr const char* kGood =
    R"({"timestamp": 0, "input_length": 1030, "output_length": 5, "hash_ids": [1, 2, 3]})";

/// Plays the trace that is in `text`.
Outcome play(const std::string& text, const std::string& options = {}) {
  return shell("$B/replay /dev/stdin --policy lru " + options, text);
}

/// The good line with one thing in another way.
std::string line_with(const std::string& key, const std::string& value) {
  json line = json::parse(kGood);
  line.erase(key);
  std::string text = line.dump();
  if (!value.empty()) text.insert(1, '"' + key + "\": " + value + ", ");
  return text;
}

std::string gzipped(const std::string& text) {
  std::string out(text.size() + 100, '\0');
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

TEST_CASE("replay: the example as a table, as JSON and as a plot") {
  const Outcome out = shell("$B/replay " + kExample +
                            " --pool-blocks 300,100 --json $T/j --plot $T/p && cat $T/j $T/p");
  CAPTURE(out.err);
  REQUIRE(out.code == 0);
  CHECK(out.err.empty());
  const size_t begin = out.out.find('{'), end = out.out.find("<svg");
  REQUIRE(end != std::string::npos);
  const json document = json::parse(out.out.substr(begin, end - begin));
  CHECK(document["requests"] == 400);
  CHECK(document["runs"].size() == 8);
  CHECK(document["runs"][0]["pool_blocks"] == 100);
  CHECK(document["runs"][3]["policy"] == "optimal");
  const double optimal = document["runs"][3]["hit_rate"];
  for (const size_t i : {0u, 1u, 2u}) CHECK(document["runs"][i]["hit_rate"] < optimal);
  const std::string svg = out.out.substr(end);
  CHECK(svg.ends_with("</svg>\n"));
  for (const char* name : {">lru<", ">fifo<", ">random<", ">optimal<", ">300<"}) {
    CHECK(svg.find(name) != std::string::npos);
  }
}

TEST_CASE("replay: the generator's trace is what it was, in any block size, and can be read") {
  const Outcome made = shell("$B/replay --generate 400 --seed 1");
  CHECK(made.out == kvtest::text_of(KV_SOURCE_DIR "/instruments/replay/example.jsonl"));
  CHECK(shell("$B/replay --generate 400 --seed 2").out != made.out);
  const Outcome small = shell(
      "$B/replay --generate 50 --block-size 16 >$T/t && $B/replay $T/t --policy fifo --json -");
  REQUIRE(small.code == 0);
  CHECK(json::parse(small.out)["block_size"] == 16);
}

TEST_CASE("replay: only full blocks count, whatever ends the line") {
  const std::string same = std::string(kGood) + "\r\n\n" + kGood;
  const json runs = json::parse(play(same, "--json -").out);
  CHECK(runs["full_blocks"] == 4);
  CHECK(runs["input_tokens"] == 2060);
  CHECK(runs["runs"][0]["blocks_found"] == 2);
  CHECK(json::parse(play(line_with("hash_ids", "[1, 2]"), "--json -").out)["full_blocks"] == 2);
  CHECK(play(line_with("input_length", "0")).code == 2);
  CHECK(play(R"({"input_length": 0, "output_length": 0, "hash_ids": []})").code == 0);
  CHECK(play(line_with("hash_ids", "[18446744073709551615, 0, 1]")).code == 0);
}

// Lines in the common form are read without the JSON library: both ways are the same.
TEST_CASE("replay: a line can be written in any way that JSON allows") {
  const auto read = [](const std::string& text) {
    TraceLine line;
    parse_trace_line(text, "here", line);
    return std::tuple(line.input_length, line.block_size, line.hash_ids);
  };
  const auto plain = read(kGood);
  CHECK(plain == std::tuple(1030, 0, std::vector<uint64_t>{1, 2, 3}));
  CHECK(read(R"( {"hash_ids":[1,2,3],"output_length":5,"input_length":1030} )") == plain);
  CHECK(read(line_with("timestamp", "0.5")) == plain);
  CHECK(read(line_with("type", "\"text\"")) == plain);
  CHECK(read(R"({"inp\u0075t_length":1030, "output_length":5, "hash_ids":[1,2,3]})") == plain);
  for (const char* wrong :
       {R"({"input_length":01, "output_length":5, "hash_ids":[1]})",
        R"({"input_length":1, "output_length":5, "hash_ids":[1], })",
        R"({"input_length":1, "output_length":5, "hash_ids":[1]}})",
        R"({"input_length":1, "input_length":2, "output_length":5, "hash_ids":[]})",
        R"({"input_length":1, "output_length":5})",
        R"({"input_length":1, "output_length":5, "hash_ids":[1.5]})"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(read(wrong), kv::UserError);
  }
}

// For any changed byte, the line has the meaning that the JSON library gives it, or both refuse it.
TEST_CASE("replay: a line with any byte changed is read as JSON means it") {
  const std::string good =
      R"({"timestamp": 10, "input_length": 1030, "output_length": 5, "hash_ids": [1, 20, 3]})";
  const std::string bytes = "\"{}[]:,.eE-+0123456789 \t\\abhil_x\x01\x80";
  int num_read = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const char byte : bytes) {
      for (const bool insert : {false, true}) {
        std::string text = good;
        text.replace(at, insert ? 0 : 1, 1, byte);
        CAPTURE(text);
        TraceLine line;
        try {
          parse_trace_line(text, "here", line);
        } catch (const kv::UserError&) {
          continue;
        }
        ++num_read;
        const json read = json::parse(text, nullptr, false);
        REQUIRE(read.is_object());
        CHECK(line.input_length == read["input_length"].get<int64_t>());
        CHECK(line.hash_ids == read["hash_ids"].get<std::vector<uint64_t>>());
      }
    }
  }
  CHECK(num_read > 500);
}

TEST_CASE("replay: gzip, whole and cut at every byte") {
  const std::string packed = gzipped(std::string(kGood) + "\n" + kGood + "\n");
  CHECK(play(packed).out == play(std::string(kGood) + "\n" + kGood).out);
  for (size_t size = 12; size < packed.size(); ++size) {
    CAPTURE(size);
    check_refused(play(packed.substr(0, size)), "the gzip file ends after line");
  }
  check_refused(play(packed.substr(0, packed.size() - 1)), "the gzip file ends after line 2");
  std::string flipped = packed;
  flipped[flipped.size() - 6] ^= 1;  // in the checksum
  check_refused(play(flipped), "is it damaged?");
}

TEST_CASE("replay: what is wrong is one line with its place, and exit code 2") {
  const auto wrong = [](const std::string& line, const std::string& what) {
    check_refused(play(std::string(kGood) + "\n" + line), what);
  };
  wrong("{\"input", "line 2: not valid JSON");
  wrong(line_with("input_length", "01030"), "line 2: not valid JSON");
  wrong(std::string(kGood) + "}", "line 2: not valid JSON");
  wrong(line_with("hash_ids", "[1, 2, 3,]"), "line 2: not valid JSON");
  wrong(line_with("x", "1, \"input_length\": 1030"), "key \"input_length\" occurs twice");
  wrong("[1]", "line 2: found an array of 1 value, wanted a JSON object");
  wrong(line_with("input_length", "-1"),
        "line 2: \"input_length\" is -1, wanted an integer from 0");
  wrong(line_with("input_length", "1000.5"), "is 1000.5, wanted an integer");
  wrong(line_with("output_length", "-7"), "\"output_length\" is -7");
  wrong(line_with("output_length", ""), "key \"output_length\" is missing");
  wrong(line_with("timestamp", "-1"), "\"timestamp\" is -1");
  wrong(line_with("hash_ids", "5"), "\"hash_ids\" is 5, wanted an array");
  wrong(line_with("hash_ids", "[1]"), "1 hash id for 1030 input tokens in blocks of 512, wanted 3");
  wrong(line_with("hash_ids", "[1, 2, 3, 4]"), "4 hash ids for 1030 input tokens");
  wrong(line_with("hash_ids", "[1, -2, 3]"), "a hash id is -2, wanted an integer from 0");
  wrong(line_with("hash_ids", "[1, \"2\", 3]"), "a hash id is \"2\"");
  wrong(line_with("hash_ids", "[2, 2, 3]"), "hash id 2 occurs twice");
  wrong(line_with("block_size", "16"), "\"block_size\" is 16, wanted 512 as in the lines before");
  check_refused(play(""), "there is no request in it");
  check_refused(play("\n\n"), "there is no request in it");
  check_refused(play(kGood, "--block-size 16"), "in blocks of 16, wanted 65");
  check_refused(play(kGood, "--pool-blocks 0"), "'0' is no number of blocks, wanted 1 to");
  check_refused(play(kGood, "--pool-blocks 5,,6"), "'' is no number of blocks");
  check_refused(play(kGood, "--plot /no/such/folder/p.svg"),
                "--plot: '/no/such/folder/p.svg' is not allowed");
  check_refused(shell("$B/replay " + kExample + " --policy lru,mru"),
                "'mru' is unknown, wanted some of");
  check_refused(shell("$B/replay /no/such/file"), "/no/such/file: no such file");
  check_refused(shell("$B/replay $S"), "a folder; wanted a trace");
  check_refused(shell("$B/replay"), "no trace is given");
  check_refused(shell("cat | $B/replay /dev/stdin", kGood), "reads it twice");
  check_refused(shell("TMPDIR=/no/such $B/replay " + kExample), "set TMPDIR to another folder");
  check_refused(shell("$B/replay --generate 5 >/dev/full"), "cannot write");
  check_refused(shell("$B/replay $T/t --generate 5"), "wanted no trace");
}

TEST_CASE("replay: no option writes over the trace") {
  const std::string same = "cd $T && cp " + kExample + " trace && ln -s trace link; ";
  for (const char* option : {"--json link", "--plot ./trace"}) {
    CAPTURE(option);
    const Outcome out = shell(same + "$B/replay trace " + option + "; cmp trace " + kExample);
    CHECK(out.code == 0);
    CHECK(out.err.find("would replace trace, which") != std::string::npos);
  }
  check_refused(shell(same + "$B/replay trace --json x --plot x"), "would replace x, which");
}

TEST_CASE("replay: Ctrl-C ends a trace that never ends, and leaves what was there") {
  const Outcome out = shell(
      "echo old >$T/j; yes '" + std::string(kGood) +
      "' | timeout --preserve-status -s INT 0.5 $B/replay /dev/stdin --policy lru --json $T/j "
      "--plot $T/p; echo code $?; cat $T/j; ls $T");
  CHECK(out.out == "code 130\nold\nj\nstderr\nstdin\nstdout\n");
}
