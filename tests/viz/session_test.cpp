// Sessions and live runs: everything about a page's history that is not a picture.

#include "viz/shell/session.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "tests/support/temp_dir.h"
#include "tests/viz/example_page.h"
#include "tests/viz/fake_ui.h"
#include "viz/names.h"

using Fixture = kvtest::CountingSession;

TEST_CASE_FIXTURE(Fixture, "a scenario plays step by step and is what was recorded") {
  session.load(viz::Scenario::parse(kvtest::kStory, "story"));
  CHECK(session.step());
  CHECK(value() == 2);
  CHECK(session.caption() == "Two \"and\" three.");
  CHECK(session.step());
  CHECK(value() == 5);
  const int64_t revision = session.revision();
  CHECK(session.step());  // a refusal is a step, too: the page shows why
  CHECK(session.revision() > revision);
  CHECK(value() == 5);
  CHECK_FALSE(session.step());
  CHECK(session.at_end());
  CHECK(session.recorded("r").text() == "page 99\nadd 2\nadd 3\n");
}

TEST_CASE_FIXTURE(Fixture, "undo and redo lead to the states in between") {
  for (const char* line : {"add 1", "add 2", "add 3"}) CHECK(session.try_run(line));
  session.undo();
  CHECK(value() == 3);
  session.undo();
  session.redo();
  CHECK(value() == 3);
  CHECK(session.try_run("add 5"));
  CHECK_FALSE(session.can_redo());  // another way was taken
  session.undo(), session.undo(), session.undo();
  CHECK(value() == 0);
  CHECK_FALSE(session.can_undo());
  session.undo();
  CHECK(value() == 0);
}

TEST_CASE_FIXTURE(Fixture, "what is refused leaves the page and its history as they were") {
  CHECK(session.try_run("add 9"));
  const std::pair<const char*, const char*> wrong[] = {
      {"add 2", "10 is the most"},
      {"fly", "no such command"},
      {"add", "wants 1 word after"},
      {"add 1 2", "wants 1 word after"},
      {"add \"1", "never closed"},
      {"expect value 3", "found 9"},
      {"expect speed 3", "no counter `speed`"},
      {"expect value ~ 3", "found ~"},
      {"fails add 1", "but it was done"},
      {"fails", "wants a command"},
      // An unknown command is refused as well, which proves nothing.
      {"fails fly 2", "has no command"},
      {"fails expect value 77", "has no command"},
      {"fails ad 6", "has no command"},
      {"say one two", "wants 1 word after"},
      {"reset now", "wants 0 words after"}};
  for (const auto& one : wrong) {
    const auto& [line, why] = one;
    CAPTURE(one.first);
    CHECK_FALSE(session.try_run(line));
    CHECK(session.log().back().error);
    CHECK_MESSAGE(session.log().back().text.find(why) != std::string::npos,
                  session.log().back().text);
    CHECK(value() == 9);
  }
  CHECK(session.try_run("fails add 2"));
  CHECK(session.recorded("r").text() == "page 99\nadd 9\n");
  CHECK_THROWS_AS(session.load(viz::Scenario::parse("page 98\n", "other")), kv::UserError);
  CHECK(value() == 9);
}

TEST_CASE_FIXTURE(Fixture, "what does not hold stops the player and is reported with its line") {
  load("add 1\nexpect value 2\nadd 1\n", "wrong");
  session.playing = true;
  session.advance(100);
  CHECK_FALSE(session.playing);
  CHECK(session.log().back().text == "line 3: expected value = 2, found 1");
  CHECK(value() == 1);
  load("add 1\n\nfly 2\n", "wrong");
  CHECK_THROWS_WITH_AS(session.play_on(), doctest::Contains("line 4: "), kv::UserError);
  const std::string before = "page 99\nadd 1\nfly 2\nsay \"what is before this is prepared\"\n";
  CHECK_THROWS_WITH_AS(session.load(viz::Scenario::parse(before, "wrong")),
                       doctest::Contains("load wrong: line 3: "), kv::UserError);
}

TEST_CASE_FIXTURE(Fixture, "a reset in a scenario empties the page, and the scenario goes on") {
  load("add 1\nreset\nexpect value 0\nadd 2\n", "again");
  session.play_on();
  CHECK(session.at_end());
  CHECK(value() == 2);
  CHECK(session.recorded("r").text() == "page 99\nadd 2\n");
}

TEST_CASE_FIXTURE(Fixture, "undo takes the scenario back with the page, and redo takes it on") {
  load("say one\nadd 1\nexpect value 1\nsay two\nadd 2\nexpect value 3\n", "steps");
  CHECK(session.step());
  CHECK(session.step());
  CHECK(session.caption() == "two");
  session.undo();
  CHECK(session.caption() == "one");  // the sentence goes with what it announced
  session.undo();
  CHECK(session.caption() == "Steps");
  CHECK(value() == 0);
  session.redo();
  CHECK(session.caption() == "one");
  CHECK(session.step());
  CHECK(session.caption() == "two");
  CHECK(value() == 3);
  session.undo();
  CHECK(session.step());
  CHECK(session.at_end());
  CHECK(value() == 3);
}

TEST_CASE_FIXTURE(Fixture, "a reset and a loading are undone like any command") {
  load("say one\nadd 1\nadd 2\n", "first");
  session.play_on();
  session.reset();
  CHECK(value() == 0);
  CHECK(session.position() == 0);
  session.undo();
  CHECK(value() == 3);
  CHECK(session.at_end());
  load("add 7\n", "second");
  session.play_on();
  session.undo(), session.undo();
  CHECK(value() == 3);
  CHECK(session.scenario()->name == "first");
  CHECK(session.caption() == "one");
  session.redo(), session.redo();
  CHECK(value() == 7);
  CHECK(session.recorded("r").text() == "page 99\nadd 7\n");
}

TEST_CASE_FIXTURE(Fixture, "closing brings back what the page showed before it played") {
  for (const char* line : {"add 1", "add 3"}) CHECK(session.try_run(line));
  for (const char* name : {"story", "another"}) {  // one right after the other
    session.load(viz::Scenario::parse(kvtest::kStory, name));
    session.step();
  }
  session.go_to_step(2);
  CHECK(value() == 5);
  session.close();
  CHECK(session.scenario() == nullptr);
  REQUIRE(value() == 4);
  CHECK(session.log().back().text == "now 4");
  CHECK(session.recorded("r").text() == "page 99\nadd 1\nadd 3\n");
  session.undo();
  CHECK(session.scenario() != nullptr);
  CHECK(value() == 5);
  session.redo();
  CHECK(value() == 4);
}

TEST_CASE_FIXTURE(Fixture, "after a reset a command of one's own puts the scenario away") {
  load("say one\nadd 1\nadd 2\n", "story");
  session.play_on();
  session.reset();
  CHECK(session.try_run("add 5"));
  CHECK(session.scenario() == nullptr);
  CHECK(session.caption().empty());
  CHECK_FALSE(
      session.can_step());  // playing goes on with the page, which has nothing to go on with
  session.step_back();
  CHECK(value() == 0);
  REQUIRE(session.scenario() != nullptr);
  CHECK(session.caption() == "Story");
  CHECK(session.step());
  CHECK(value() == 1);
  CHECK(session.try_run("add 5"));  // in the middle of it
  CHECK(session.scenario() != nullptr);
}

TEST_CASE_FIXTURE(Fixture, "the same command over and over is one entry, and undone one by one") {
  for (const char* line : {"add 1", "add 2", "add 2", "add 2"}) CHECK(session.try_run(line));
  CHECK(session.history_size() == 2);
  session.undo();
  CHECK(value() == 5);
  CHECK(session.recorded("r").text() == "page 99\nadd 1\nadd 2\nadd 2\n");
  session.undo(), session.undo();
  CHECK(value() == 1);
  session.redo(), session.redo(), session.redo();
  CHECK(value() == 7);
  CHECK(session.history_size() == 2);
  CHECK_FALSE(session.can_redo());
}

TEST_CASE_FIXTURE(Fixture, "a walk to any step of a scenario is undone as one") {
  load("say one\nadd 1\nexpect value 1\nadd 2\nsay two\nfails add 9\nadd 4\n", "steps");
  CHECK(session.num_steps() == 4);
  CHECK(session.step());
  const auto states = [&](size_t step) {
    session.go_to_step(step);
    CHECK(session.steps_done() == step);
    CHECK_FALSE(session.moves_on());
    return value();
  };
  CHECK(states(4) == 7);
  CHECK(session.caption() == "two");
  CHECK(states(3) == 3);
  CHECK(states(0) == 0);
  CHECK(session.caption() == "Steps");
  CHECK(states(2) == 3);
  session.undo();  // all four
  CHECK(session.steps_done() == 1);
  CHECK(value() == 1);
  session.redo();
  CHECK(session.steps_done() == 2);
  CHECK(value() == 3);
  CHECK(session.step());
  CHECK(session.moves_on());
  CHECK(session.step());
  CHECK(session.at_end());
  CHECK(session.recorded("r").text() == "page 99\nadd 1\nadd 2\nadd 4\n");
}

TEST_CASE_FIXTURE(Fixture, "a step back takes back the last command, whoever gave it") {
  load("add 1\nadd 2\nadd 4\n", "steps");
  session.play_on(2);
  CHECK(session.try_run("add 5"));
  for (const int64_t wanted : {3, 1, 0, 0}) {
    session.step_back();
    CHECK(value() == wanted);
  }
  CHECK(session.scenario() != nullptr);
  session.undo();  // the steps back
  CHECK(value() == 3);
}

TEST_CASE_FIXTURE(Fixture, "what was done without a scenario is walked through like one") {
  for (const char* command : {"add 1", "add 2", "add 2", "add 5"}) CHECK(session.try_run(command));
  CHECK(session.num_steps() == 4);
  for (const auto& [step, wanted] : {std::pair<size_t, int64_t>{1, 1}, {3, 5}, {0, 0}, {9, 10}}) {
    session.go_to_step(step);
    CHECK(session.steps_done() == std::min<size_t>(step, 4));
    CHECK(session.num_steps() == 4);
    CHECK(value() == wanted);
  }
  session.go_to_step(2);
  CHECK(session.try_run("add 4"));  // what was taken back is gone
  CHECK(session.num_steps() == 3);
  session.reset();
  CHECK(session.num_steps() == 0);
}

TEST_CASE_FIXTURE(Fixture, "the log is bounded, whatever fills it") {
  for (int i = 0; i < 1200; ++i) session.try_run(i % 2 == 0 ? "add 0" : "fly");
  CHECK(session.log().size() == 500);
}

TEST_CASE_FIXTURE(Fixture, "the log and the caption are those of the state that is shown") {
  load("say one\nadd 1\nsay two\nadd 2\nfails add 9\nsay three\nadd 4\n", "steps");
  using Words = std::vector<std::string>;
  const auto log = [&] {
    Words words;
    for (const viz::Session::LogLine& line : session.log()) words.push_back(line.text);
    return words;
  };
  std::vector<std::pair<std::string, Words>> played{{session.caption(), log()}};
  while (session.step()) played.emplace_back(session.caption(), log());
  REQUIRE(played.size() == 5);
  for (const size_t step : std::initializer_list<size_t>{4, 0, 3, 1, 2}) {
    session.go_to_step(step);
    CHECK(session.caption() == played[step].first);
    CHECK(log() == played[step].second);
  }
  session.step_back();
  CHECK(log() == Words{"now 1"});
  CHECK(session.step());
  CHECK(log() == Words{"now 1", "now 3"});  // once each
  session.undo();
  CHECK(log() == Words{"now 1"});
  session.redo();
  CHECK(log() == Words{"now 1", "now 3"});
  session.reset();
  CHECK(log().empty());
  CHECK(session.caption() == "Steps");
}

TEST_CASE("a live run that is begun in the middle of a scenario is what playing goes on with") {
  struct Running : kvtest::CountingPage {
    Running() {
      declare({{"live", {}, "runs", [this](auto&) { return runs = true, "runs"; }},
               {"token",
                {},
                "a token",
                [](auto&) { return "a token"; },
                [this](auto&) { return runs ? "" : "nothing runs"; },
                true}});
    }
    void reset() override {
      CountingPage::reset();
      runs = false;
    }
    bool runs = false;
  };
  viz::Session session(std::make_unique<Running>());
  session.load(viz::Scenario::parse("page 99\nsay one\nadd 1\nadd 2\nadd 4\n", "story"));
  session.play_on(1);
  CHECK(session.try_run("live"));
  CHECK(session.scenario() == nullptr);
  CHECK(session.step());
  CHECK(session.log().back().text == "a token");
  CHECK(session.page().counter("value") == 1);
  session.undo(), session.undo();
  REQUIRE(session.scenario() != nullptr);  // undo brings it back
  CHECK(session.caption() == "one");
  CHECK(session.step());
  CHECK(session.page().counter("value") == 3);
}

TEST_CASE("a device that fails is reported in the log, and the window stays") {
  struct Failing : kvtest::CountingPage {
    Failing() : CountingPage("99", {"add -1"}) {}
    void changed() override {
      if (counter("value") < least) throw kv::DeviceError("the device is gone");
    }
    int least = -1;
  };
  auto page = std::make_unique<Failing>();
  Failing& failing = *page;
  viz::Session session(std::move(page));
  for (const char* line : {"add 1", "add 2", "add 3"}) CHECK(session.try_run(line));
  session.undo();
  failing.least = 99;
  CHECK_FALSE(session.try_run("add 3"));
  CHECK(session.log().back().text == "the device is gone");
  session.redo();
  CHECK(session.log().back().error);
  CHECK(session.can_redo());  // it was not done
  session.undo();
  CHECK(session.log().back().error);
  CHECK(session.page().counter("value") == 0);
  failing.least = -1;  // nothing is lost
  for (int i = 0; i < 3; ++i) session.redo();
  CHECK(session.page().counter("value") == 5);
  failing.least = 0;  // the opening fails, so nothing goes on from there
  session.undo();
  CHECK(session.page().counter("value") == 0);
  session.redo();
  CHECK(session.log().back().error);
  failing.least = 99;
  session.load(viz::Scenario::parse("page 99\n\nadd 1\n", "live"));
  CHECK_THROWS_WITH_AS(session.play_on(), "line 3: the device is gone", kv::UserError);
}
