// A program's options: what is allowed, and what a message says about the rest.

#include "programs/options.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/error.h"

namespace {

/// The message of parsing these words; empty if they are allowed.
std::string complaint(kv::CommandLine& command, std::vector<std::string> words) {
  words.insert(words.begin(), "program");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  try {
    return command.parse(static_cast<int>(argv.size()), argv.data()) ? "" : "help";
  } catch (const kv::UserError& error) {
    return error.what();
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("an option that is not given keeps its default, and one that is given replaces it") {
  int number = 7, left = 5;
  uint64_t seed = 1;
  float narrow = 0.5f;
  double wide = 0.5;
  std::string text = "a", place = "here";
  std::filesystem::path path;
  std::optional<int> maybe, never;
  bool flag = false, off = false;
  std::vector<std::string> list{"default"};
  kv::CommandLine command("");
  command.value("--number N", number, "").between(0, 10);
  command.value("--left N", left, "");
  command.value("--seed N", seed, "");
  command.value("--narrow X", narrow, "");
  command.value("--wide X", wide, "");
  command.value("--text TEXT", text, "");
  command.value("--path DIR", path, "");
  command.value("--maybe N", maybe, "").between(1, 2);
  command.value("--never N", never, "");
  command.value("place NAME", place, "");
  command.flag("--flag", flag, "");
  command.flag("--off", off, "");
  command.list("--list TEXT", list, "");
  CHECK(complaint(command, {"--number", "10", "--seed", "9223372036854775807", "--narrow", "0.25",
                            "--wide=1e-3", "--text", "b c", "--path", "d/e", "--maybe", "2",
                            "there", "--flag", "--list", "x", "--list", "y"}) == "");
  CHECK(number == 10);
  CHECK(left == 5);
  CHECK(seed == 9223372036854775807u);
  CHECK(narrow == 0.25f);
  CHECK(wide == 1e-3);
  CHECK(text == "b c");
  CHECK(path == "d/e");
  CHECK(maybe == 2);
  CHECK(!never);
  CHECK(place == "there");
  CHECK(flag);
  CHECK(!off);
  CHECK(list == std::vector<std::string>{"x", "y"});
}

TEST_CASE("integers take their range and nothing else") {
  for (const char* word :
       {"-2", "0", "8", "-3", "9", "", "x", "1.5", "1 ", "+1", "99999999999999999999999"}) {
    CAPTURE(std::string(word));
    int value = 0;
    kv::CommandLine command("");
    command.value("--x N", value, "").between(-2, 8);
    const std::string said = complaint(command, {std::string("--x=") + word});
    const bool good = word == std::string("-2") || word == std::string("0") || *word == '8';
    CHECK(said.empty() == good);
    CHECK((good || contains(said, "wanted -2 to 8") || *word == '\0'));
  }
}

TEST_CASE("real numbers take their range and nothing else") {
  struct Case {
    std::string word;
    bool closed, open;
  };
  const Case cases[] = {{"0", true, false},      {"1e-9", true, true},  {"1", true, true},
                        {"1.001", false, false}, {"nan", false, false}, {"inf", false, false},
                        {"x", false, false},     {"-0.1", false, false}};
  for (const Case& c : cases) {
    CAPTURE(c.word);
    double value = 0.5;
    kv::CommandLine command("");
    command.value("--closed X", value, "").real_between(0, 1);
    command.value("--open X", value, "").over(0, 1);
    CHECK(complaint(command, {"--closed=" + c.word}).empty() == c.closed);
    CHECK(complaint(command, {"--open=" + c.word}).empty() == c.open);
  }
}

TEST_CASE("a message names the option, the value found, the values wanted, and the program") {
  std::string name = "a", json;
  bool flag = false;
  const auto said = [&](std::vector<std::string> words) {
    kv::CommandLine command("", "./course x");
    command.value("--json FILE", json, "").output_file();
    command.value("--name NAME", name, "").one_of({"a", "b", "c"}).not_empty();
    command.flag("--flag", flag, "").excludes("--json");
    command.value("--depth N", name, "").needs("--flag");
    command.value("--need N", name, "what is needed").required();
    return complaint(command, std::move(words));
  };
  CHECK(said({"--need", "1"}).empty());
  CHECK(said({"--need", "1", "--name", "d"}) ==
        "--name: 'd' is not allowed, wanted a, b or c; ./course x --help lists the options");
  CHECK(said({"--need", "1", "--flag", "--json", "f"}) ==
        "--json: not with --flag; ./course x --help lists the options");
  CHECK(said({"--need", "1", "--depth", "2"}) ==
        "--depth: only with --flag; ./course x --help lists the options");
  CHECK(said({"--need", "1", "--depth", "2", "--flag"}).empty());
  CHECK(contains(said({}), "--need is required: what is needed; ./course x"));
  CHECK(contains(said({"--need", "1", "--json", "/no/such/f"}),
                 "--json: '/no/such/f' is not allowed, wanted a file in a folder that is there"));
  CHECK(contains(said({"--need", "1", "--json", "/"}), "--json: '/' is not allowed"));
  CHECK(contains(said({"--need"}), "--need: a value is missing, wanted N; ./course x"));
  CHECK(said({"--need", "1", "stray", "--zigzag"}) ==
        "unexpected 'stray'; a text of several words needs quotes; ./course x --help lists "
        "the options");
  CHECK(said({"--need", "1", "--zigzag"}) ==
        "unknown option '--zigzag'; ./course x --help lists the options");
  CHECK(said({"--need", "1", "--nmae=a"}) ==
        "unknown option '--nmae'; did you mean --name? ./course x --help lists the options");
  CHECK(contains(said({"--need", "1", "--name", "a", "--name", "b"}),
                 "--name: found 2 values, wanted one; ./course x"));
  CHECK(contains(said({"--need", "1", "--nope"}), "'--nope'; ./course x"));  // not --name
  CHECK(contains(said({"--need", "1", "--falg"}), "mean --flag?"));  // a swap is one mistake
  CHECK(contains(said({"--need", "1", "--dep"}), "mean --depth?"));
  CHECK(contains(said({"--need", "1", "-"}), "'-'; ./course x"));
  CHECK(contains(said({"--nede", "1"}), "did you mean --need?"));  // not: --need is required
  CHECK(said({"--need", "1", "--flags", "3"}) ==
        "unknown option '--flags'; did you mean --flag? ./course x --help lists the options");
}

TEST_CASE("a program that ./course runs is called what its user typed") {
  kv::CommandLine by_hand("");
  CHECK(complaint(by_hand, {"--fly"}) ==
        "unknown option '--fly'; program --help lists the options");
  ::setenv("COURSE_COMMAND", "./course run 5", 1);
  kv::CommandLine command("");
  CHECK(contains(complaint(command, {"--fly"}), "; ./course run 5 --help lists"));
  ::unsetenv("COURSE_COMMAND");
}
