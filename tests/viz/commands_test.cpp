// The language of a page: its tables of commands and counters, names, and scenarios as text.

#include "viz/shell/session.h"

#include <doctest/doctest.h>

#include <fstream>
#include <string>

#include "common/error.h"
#include "tests/support/temp_dir.h"
#include "tests/viz/example_page.h"
#include "tests/viz/fake_ui.h"
#include "viz/live.h"
#include "viz/names.h"

namespace {

/// Says what its verbs were called with.
struct TablePage : kvtest::CountingPage {
  TablePage() {
    const auto told = [](const viz::Words& words) {
      std::string text;
      for (const viz::Word& w : words) text += w.text + "=" + std::to_string(w.number) + " ";
      return text;
    };
    declare({{"make",
              {viz::word("NAME"), viz::power_of_two("SIZE", 64).field("tokens each", "16"),
               viz::choice("exact|hash"), viz::number("COUNT", 1, 9).or_else("4")},
              "NAME gets COUNT of SIZE",
              told},
             {"make all", {viz::words("NAME", 1, 3)}, "every NAME", told},
             viz::Verb{"size", {viz::number("A", 0, 9), viz::number("B", 0, 9)}, "A by B", told}
                 .holding_if([](auto& w) { return w[0].number == 2 && w[1].number == 3; }),
             {"set",
              {viz::number("VALUE", 0, kMost).field("value", "0").follows([this] {
                return counters()[0].value;
              })},
              "it is VALUE",
              told}});
    declare(viz::unless([this] { return counters()[0].value > 0 ? "" : "it is zero"; },
                        {{"on", {}, "go on", told, {}, true, [this] { return comes; }}}));
  }
  void draw(viz::Ui& ui) override {
    buttons(ui, {{"all", "All", "make all A B C"}, {"big", "Big", "make A 99 hash"}});
    form(ui, {"form", "Make", "make Z"});
    form(ui, {"set", "Set", "set"});
    buttons(ui, {{"on", "On", "on"}, {"no choice", "2 by 3", "size 2 3"}});
    choice(ui, "Size", {{"size 2", "2 by 3", "size 2 3"}, {"half", "2 by 4", "size 2 4"}});
  }
  void refused(const viz::Command& command, const std::string& why) override {
    refusal = command.verb + ": " + why;
  }
  std::string refusal;
  bool comes = false;  // what `on` goes on with
  std::string answer(const std::string& line) {
    try {
      return apply(viz::parse_command(line, 3));
    } catch (const kv::UserError& error) {
      return error.what();
    }
  }
};

}  // namespace

TEST_CASE("a page's table says what a line means and what is wrong with it") {
  TablePage page;
  CHECK(page.answer("make A 16 hash") == "A=0 16=16 hash=1 4=4 ");
  CHECK(page.answer("make A 16 exact 9") == "A=0 16=16 exact=0 9=9 ");
  CHECK(page.answer("make all A B") == "A=0 B=0 ");
  CHECK(page.answer("make all A B C D") ==
        "line 3: make all wants 1 to 3 words after it, found 4; write make all NAME ..");
  CHECK(page.answer("make A 16").ends_with("found 2; write make NAME SIZE exact|hash [COUNT]"));
  CHECK(page.answer("make A 128 hash") == "line 3: make wants SIZE from 1 to 64, found 128");
  CHECK(page.answer("make A 12 hash") == "line 3: make wants a power of two as SIZE, found \"12\"");
  CHECK(page.answer("make A 16 has") == "line 3: make wants exact|hash, found \"has\"");
  CHECK(page.answer("make \"\" 16 hash") ==
        "line 3: make wants NAME with at least one character, found \"\"");
  CHECK(page.answer("fly") == "fly: no such command; there are add, make, make all, size, set, on");
  CHECK(page.answer("mkae") ==
        "mkae: no such command; did you mean make? there are add, make, make all, size, set, on");
  CHECK(page.refusal.empty());
  CHECK(page.answer("on") == "on: it is zero; nothing has changed");
  CHECK(page.refusal == "on: it is zero");
  CHECK(page.help()[1].first == "make NAME SIZE exact|hash [COUNT]");
  CHECK(page.help()[2] == std::pair<std::string, std::string>("make all NAME ..", "every NAME"));
  CHECK(page.next_step().empty());
  page.answer("add 1");
  CHECK(page.next_step() == "on");
}

TEST_CASE("playing waits for what is on its way, and a step by hand is told why it does nothing") {
  auto made = std::make_unique<TablePage>();
  TablePage& page = *made;
  viz::Session session(std::move(made));
  CHECK_FALSE(session.can_step());
  page.comes = true;
  CHECK(page.waits());
  CHECK(session.can_step());
  session.playing = true;
  session.advance(100);
  CHECK(session.playing);
  CHECK(session.log().empty());
  session.run(viz::parse_command("add 1"));
  CHECK_FALSE(page.waits());
  session.advance(100);
  CHECK(session.log().size() == 2);
  session.run(viz::parse_command("add -1"));
  session.playing = false;
  CHECK_FALSE(session.step());
  CHECK(session.log().back().text == "on: it is zero; nothing has changed");
  page.comes = false;
  session.playing = true;
  session.advance(100);
  CHECK_FALSE(session.playing);
}

TEST_CASE("buttons and fields of a page come from its table") {
  TablePage page;
  kvtest::FakeUi ui(page);
  CHECK(ui.buttons().at("big").tooltip == "A gets 4 of 99.");  // refused, and yet as it would be
  CHECK(ui.reason("big") == "make wants SIZE from 1 to 64, found 99");
  CHECK(ui.reason("on") == "it is zero");
  CHECK(ui.buttons().at("form").command == "make Z 16 \"\" 4");
  ui.type("make/SIZE", 17);
  CHECK(ui.buttons().at("form").command == "make Z 32 \"\" 4");
  ui.type("make/SIZE", 31);
  ui.type("make/COUNT", 90);
  CHECK(ui.buttons().at("form").command == "make Z 16 \"\" 9");
}

TEST_CASE("of a choice the button is lit whose words hold, all of them") {
  TablePage page;
  const kvtest::FakeUi ui(page);
  CHECK(ui.lit("size") == std::vector<std::string>{"size 2"});
}

TEST_CASE("a field that follows the page's state holds what was typed until the state changes") {
  TablePage page;
  kvtest::FakeUi ui(page);
  CHECK(ui.buttons().at("set").command == "set 0");
  ui.type("set/VALUE", 7);
  CHECK(ui.buttons().at("set").command == "set 7");
  ui.run("add 3");
  ui.type("", 0);  // draws it
  CHECK(ui.buttons().at("set").command == "set 3");
}

TEST_CASE("a share is thousandths for a scenario and percent in its box") {
  CHECK(viz::share("a", 1, 3, "", "").value == 333);
  CHECK(viz::share("a", 2, 3, "", "", 1).text == "66.7 %");
  CHECK(viz::share("a", 0, 0, "", "").text == "-");
}

TEST_CASE("names keep their order and their hue") {
  struct Thing : viz::SequenceView {};
  viz::NamedList<Thing> list("thing", 4);
  for (const char* name : {"A", "B", "C"}) list.add(name, {});
  list.erase("B");
  CHECK(list.at("C").hue == 2);
  CHECK(list.free_names(2) == std::vector<std::string>{"B", "D"});
  CHECK(list.add("D", {}).hue == 3);  // B's would be mistaken for B
  CHECK(list.names() == std::vector<std::string>{"A", "C", "D"});
  CHECK(list.why_not_add("C") == "there is a thing C already");
  CHECK(list.why_not_add(std::vector<std::string>{"E", "F"}) == "there are 3 of at most 4 things");
  CHECK(list.why_not_add("a-b").find("letters and digits") != std::string::npos);
  CHECK_THROWS_WITH_AS(list.at("B"), "there is no thing B; there are A, C, D", kv::UserError);
  CHECK(viz::letters(25) == "Z");
  CHECK(viz::letters(26) == "AA");
  CHECK(viz::letters(26 * 27) == "AAA");
}

TEST_CASE("a command is words with quotes and comes back as the same line") {
  const viz::Command command = viz::parse_command("say \"a \\\"b\\\" # c\" d  # comment", 7);
  CHECK(command.verb == "say");
  CHECK(command.args == std::vector<std::string>{"a \"b\" # c", "d"});
  CHECK(command.line == 7);
  const viz::Command again = viz::parse_command(command.text());
  CHECK(again.args == command.args);
  CHECK(viz::parse_command("   # nothing").verb.empty());
  CHECK(viz::parse_command("say \"\"").args == std::vector<std::string>{""});
  CHECK_THROWS_WITH_AS(viz::parse_command("say \"open", 3), doctest::Contains("line 3"),
                       kv::UserError);
}

TEST_CASE("a number outside its range or not a number is refused with both") {
  for (const char* word : {"0", "-1", "257", "2147483648", "1e3", "4x", "99999999999999999999"}) {
    const viz::Command command = viz::parse_command(std::string("resize ") + word, 4);
    CHECK_THROWS_WITH_AS(command.number(0, "a block size", 1, 256),
                         doctest::Contains("line 4: resize wants a block size from 1 to 256"),
                         kv::UserError);
  }
  CHECK(viz::parse_command("resize 256").number(0, "a block size", 1, 256) == 256);
}

TEST_CASE("a scenario cut off at any byte is an error with its line or a shorter scenario") {
  const std::string story = kvtest::kStory;
  for (size_t n = 0; n < story.size(); ++n) {
    CAPTURE(n);
    try {
      const viz::Scenario part = viz::Scenario::parse(story.substr(0, n), "cut");
      CHECK(std::string("99").starts_with(part.page));
    } catch (const kv::UserError& error) {
      CHECK(std::string(error.what()).starts_with("cut: "));
    }
  }
}

TEST_CASE("a file that is no scenario is named, and a byte order mark is no word") {
  const kvtest::TempDir dir;
  const auto file = dir.path() / "file.txt";
  const auto load = [&](const std::string& text) {
    std::ofstream(file, std::ios::binary) << text;
    return viz::Scenario::load(file);
  };
  CHECK(load("\xEF\xBB\xBFpage 05\n").page == "05");
  for (const std::string& text : {std::string("page 99\0add 1", 13), std::string("add 1\n"),
                                  std::string("page 99\norder x\n"),
                                  std::string("page 99\ntitle\n"), std::string(2 << 20, 'x')}) {
    CHECK_THROWS_WITH_AS(load(text), doctest::Contains("file.txt: "), kv::UserError);
  }
  CHECK_THROWS_WITH_AS(viz::Scenario::load(dir.path() / "none"), doctest::Contains("none: "),
                       kv::UserError);
}
