// The lessons' programs as a user meets them: help, errors, exit codes, JSON, closed pipes, Ctrl-C.

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "common/table.h"
#include "tests/support/shell.h"

using kvtest::Outcome;
using kvtest::text_of;

namespace {

/// A shell command in which $P is the program.
Outcome shell(const std::string& program, const std::string& rest) {
  return kvtest::shell("P=$B/" + program + "; " + rest);
}

void check_refused(const std::string& program, const std::string& rest, const std::string& what) {
  CAPTURE(rest);
  kvtest::check_refused(shell(program, rest), what);
}

const char* const kPrograms[] = {"lesson01", "lesson02"};

}  // namespace

TEST_CASE("help names every option and exits with 0") {
  for (const std::string program : kPrograms) {
    const Outcome help = shell(program, "$P --help");
    CHECK(help.code == 0);
    CHECK(help.err.empty());
    for (const char* option :
         {"--prompt", "--max-tokens", "--device", "--kernel", "--model", "--window", "--full-every",
          "--seed", "--temperature", "--top-k", "--top-p", "--json", "--help"}) {
      CAPTURE(option);
      CHECK(help.out.find(option) != std::string::npos);
    }
  }
}

TEST_CASE("help has one form: usage, a sentence, options, and lines of 80 columns in a pipe") {
  const Outcome help = shell("lesson02", "COURSE_COMMAND='./course run 2' $P --help");
  CHECK(help.out.starts_with("usage: ./course run 2 [options]\n\nLesson 02: "));
  CHECK(help.out.find("\n\noptions:\n  -h, --help ") != std::string::npos);
  std::istringstream lines(help.out);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 80);
  CHECK(shell("lesson02", "COLUMNS=120 $P --help").out.size() < help.out.size());
}

TEST_CASE("wrong numbers and unknown options give one line and exit code 2") {
  for (const std::string program : kPrograms) {
    for (const char* bad : {"0", "-1", "2147483648", "99999999999999999999", "x", "''", "1.5"}) {
      check_refused(program, std::string("$P --max-tokens ") + bad, "--max-tokens");
    }
    check_refused(program, "$P --temperature nan", "--temperature");
    check_refused(program, "$P --temperature -0.1", "--temperature");
    check_refused(program, "$P --top-p 0", "--top-p");
    check_refused(program, "$P --top-p 1.01", "--top-p");
    check_refused(program, "$P --top-k -1", "--top-k");
    check_refused(program, "$P --seed -1", "--seed");
    check_refused(program, "$P --device gpu", "wanted cpu, cuda or auto; a GPU is called cuda");
    check_refused(program, "$P --window -1", "--window");
    check_refused(program, "$P --full-every x", "--full-every");
    check_refused(program, "$P --fly", "--fly");
    check_refused(program, "$P stray", "stray");
    check_refused(program, "$P --prompt", "--prompt");
    check_refused(program, "$P --model $T/none", "config.json");
  }
  for (const char* bad : {"0", "-1", "2147483648"}) {
    check_refused("lesson02", std::string("$P --max-seq-len ") + bad, "wanted 1 to");
  }
}

TEST_CASE("a closed or full standard output gives one line and exit code 2") {
  for (const std::string program : kPrograms) {
    check_refused(program, "$P --max-tokens 3 >&-", "cannot write to standard output");
    check_refused(program, "$P --max-tokens 3 >/dev/full", "cannot write to standard output");
    check_refused(program, "$P --help >/dev/full", "cannot write to standard output");
    check_refused(program,
                  "$P --max-tokens 3 --json - >/dev/full 2>$T/all; "
                  "code=$?; tail -n 1 $T/all >&2; exit $code",
                  "cannot write to standard output");
    // A pipe whose reader has left: no word, and the exit code of a program that SIGPIPE ends.
    const Outcome closed = shell(
        program, "mkfifo $T/pipe; true <$T/pipe & exec 4>$T/pipe; wait; $P --max-tokens 3 >&4");
    CHECK(closed.code == 141);
    CHECK(closed.err == "");
  }
}

TEST_CASE("an empty prompt is refused and any other stays text") {
  for (const std::string program : kPrograms) {
    check_refused(program, "$P --prompt ''", "at least one character");
    // Bytes that are no UTF-8, and the text of a control token.
    const Outcome odd = shell(program,
                              "$P --max-tokens 2 --json - --prompt \"$(printf 'a\\377\\300')\" "
                              "--prompt '<|endoftext|>' 2>/dev/null");
    CHECK(odd.code == 0);
    const auto document = nlohmann::json::parse(odd.out);
    CHECK(document["completions"][0]["prompt"] == "a\xEF\xBF\xBD\xEF\xBF\xBD");
    // As one control token the prompt would be one row; as text it is several.
    const Outcome text =
        shell(program, "$P --max-tokens 1 --json - --prompt '<|endoftext|>' 2>/dev/null");
    CHECK(nlohmann::json::parse(text.out)["kv_rows_computed"].get<int>() > 3);
  }
}

TEST_CASE("a prompt that is longer than the model allows is refused with both numbers") {
  // The longest argument that the system passes on is 128 KiB.
  check_refused("lesson01", "$P --prompt \"$(head -c 120000 /dev/zero | tr '\\0' a)\"",
                "the model has 2,048");
}

TEST_CASE("both lessons write the same text and the same bits") {
  const std::string rest =
      "$P --device cpu --prompt 'Once upon a time' --prompt 'One day' --max-tokens 12 --json - "
      "--temperature 0.8 --seed 3 2>/dev/null";
  const auto first = nlohmann::json::parse(shell("lesson01", rest).out);
  const auto second = nlohmann::json::parse(shell("lesson02", rest).out);
  CHECK(first["completions"] == second["completions"]);
  CHECK(first["logits_xxh64"] == second["logits_xxh64"]);
  CHECK(first["tokens"] == 24);
  CHECK(first["lesson"] == "01");
  CHECK(second["lesson"] == "02");
  CHECK(first["kv_rows_computed"].get<int>() > second["kv_rows_computed"].get<int>());
  CHECK(first["kv_bytes_reserved"] == 0);
  CHECK(second["kv_bytes_reserved"].get<int64_t>() == 2LL * 2 * 1024 * 6 * 2 * 32 * 4);
}

TEST_CASE("the figures of the lessons are printed from the formulas") {
  const std::string table = shell("lesson01", "$P --table").out;
  for (const char* part : {"4096", "8192", "10240", "12288", "[512, 1024] x [1024, 4096]"}) {
    CAPTURE(part);
    CHECK(table.find(part) != std::string::npos);
  }
  CHECK(shell("lesson01", "$P --order").out.find("40ef890a") != std::string::npos);
  const std::string waste = shell("lesson02", "$P --waste").out;
  for (const char* part : {"112 KiB", "320 KiB", "512 KiB", "448 MiB", "202.1 MiB", "45.1 %",
                           "96.1 %", " = 2 GiB", " = 8 GiB", "52 of its 62 layers"}) {
    CAPTURE(part);
    CHECK(waste.find(part) != std::string::npos);
  }
  const std::string holes = shell("lesson02", "$P --fragmentation").out;
  CHECK(holes.find("1,152 slots are free, F needs 1,024, and no hole has more than 640.") !=
        std::string::npos);
}

TEST_CASE("Ctrl-C ends the text and still prints the counters") {
  const Outcome stopped =
      shell("lesson01",
            "$P --device cpu --max-tokens 1500 --temperature 100 --seed 1 >$T/text & "
            "while ! [ -s $T/text ]; do sleep 0.01; done; "
            "kill -INT $!; wait $!; code=$?; cat $T/text; exit $code");
  CHECK(stopped.code == 130);
  CHECK(stopped.out.find("rows of K and V computed") != std::string::npos);
  CHECK(stopped.err.empty());
}

TEST_CASE("Ctrl-C at any moment while a program starts ends it cleanly") {
  // It may come before there is anything to print: 130, or the signal itself (128 + 2) before
  // main(); on a fast machine also after the end.
  for (const char* lesson :
       {"01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14"}) {
    for (const char* seconds : {"0.002", "0.005", "0.01", "0.02", "0.04"}) {
      const Outcome stopped = shell(std::string("lesson") + lesson,
                                    std::string("timeout --foreground --preserve-status -s INT ") +
                                        seconds + " $P --device cpu 2>&1");
      CAPTURE(std::string(lesson));
      CAPTURE(std::string(seconds));
      CHECK_MESSAGE((stopped.code == 130 || stopped.code == 0), stopped.code, " ", stopped.out);
    }
  }
}

TEST_CASE("a dumb terminal gets no escape sequences, and any other has a red word") {
  const std::string on_a_terminal =
      "NO_COLOR= python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' $P --fly </dev/null";
  CHECK(shell("lesson01", "TERM=xterm " + on_a_terminal).out.find("\x1b[31m") == 0);
  CHECK(shell("lesson01", "TERM=dumb " + on_a_terminal).out.find("error:") == 0);
}

TEST_CASE("a program that only prints text takes no --json") {
  for (const auto& [program, flag] : {std::pair{"lesson01", "--table"},
                                      {"lesson01", "--order"},
                                      {"lesson02", "--waste"},
                                      {"lesson02", "--fragmentation"},
                                      {"lesson03", "--waste"},
                                      {"lesson03", "--translate"},
                                      {"lesson04", "--walk"},
                                      {"lesson05", "--arithmetic"}}) {
    check_refused(program, std::string("$P ") + flag + " --json $T/x.json", "--json");
  }
}

TEST_CASE("no line is wider than the terminal" * doctest::test_suite("sweep")) {
  const std::map<std::string, std::vector<std::string>> runs{
      {"lesson01", {"", "--table", "--order"}},
      {"lesson02", {"", "--waste", "--fragmentation"}},
      {"lesson03", {"", "--waste", "--translate"}},
      {"lesson04", {"", "--walk --context 300", "--context 1024"}},
      {"lesson05", {"", "--beams 3", "--arithmetic"}},
      {"lesson06", {"", "--hashes", "--attack --block-size 32"}},
      {"lesson07", {"", "--trace"}},
      {"lesson08", {"--compare"}},
      {"lesson09", {""}},
      {"lesson10", {"", "--held"}},
      {"lesson11", {""}},
      {"lesson12", {""}},
      {"lesson13", {"--store memory"}},
      {"lesson14", {""}}};
  for (const auto& [program, all] : runs) {
    for (const std::string& options : all) {
      const std::string command = "COLUMNS=80 $B/" + program + " --device cpu " + options;
      CAPTURE(command);
      const Outcome run = kvtest::shell(command);
      CAPTURE(run.err);
      CHECK(run.code == 0);
      std::istringstream lines(run.out);
      for (std::string line; std::getline(lines, line);) {
        CAPTURE(line);
        CHECK(kv::display_width(line) <= 80);
      }
    }
  }
}

TEST_CASE("a model may draw ids that its tokenizer does not have") {
  const Outcome made = kvtest::shell(
      "$B/make_model --layers 1 --no-tie --vocab 9000 --out $T/m && "
      "$B/lesson05 --model $T/m --device cpu --beams 2 --max-tokens 8 --json - && "
      "$B/lesson09 --model $T/m --device cpu --prompt 'a a a a' --max-tokens 30");
  CAPTURE(made.err);
  CHECK(made.code == 0);
  CHECK(made.out.find("\uFFFD") != std::string::npos);
}

TEST_CASE("a beam search with a negative length penalty is refused") {
  check_refused("lesson05", "$P --beams 2 --length-penalty -0.5", "--length-penalty");
}

TEST_CASE(
    "Ctrl-C in the scheduler: nobody waits for its turn to be cancelled, and no block is lost") {
  // Far more work than the time that it gets; `timeout` sends the signal that Ctrl-C sends,
  // and with --foreground only once: a second one would end the program on the spot.
  const Outcome outcome = shell("lesson08",
                                "timeout --foreground --preserve-status -s INT 2 $P --device cpu "
                                "--num-requests 5000 --no-check");
  CHECK(outcome.code == 130);
  CHECK(outcome.out.find("interrupted: 0 blocks in use") != std::string::npos);
}

TEST_CASE("the timeline in lesson 08's text is the one that the program draws") {
  const Outcome drawn =
      shell("lesson08", "$P --device cpu --no-check --timeline $T/t.svg >&2 && cat $T/t.svg");
  CHECK(drawn.code == 0);
  CHECK(drawn.out == text_of(KV_SOURCE_DIR "/docs/figures/lesson08_timeline.svg"));
}

TEST_CASE("the scheduler refuses what makes no sense, in one line") {
  check_refused("lesson08", "$P --device cpu --memory-utilization 1.5", "memory utilization 1.5");
  check_refused("lesson08", "$P --device cpu --memory-utilization -1", "memory utilization -1");
  check_refused("lesson08", "$P --device cpu --num-blocks 3", "the pool has 3");
  check_refused("lesson08", "$P --device cpu --order fair", "first-come or priority");
  check_refused("lesson08", "$P --device cpu --block-size 3", "power of two");
  check_refused("lesson08", "$P --device cpu --requests /nowhere/x.jsonl",
                "/nowhere/x.jsonl: cannot read the requests: No such");
  check_refused("lesson08", "$P --device cpu --no-check --timeline /nowhere/t.svg",
                "/nowhere/t.svg");
}
