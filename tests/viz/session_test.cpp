// Scenarios, sessions and live runs: everything about pages that is not a picture.

#include "viz/session.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "common/base/error.h"
#include "tests/support/temp_dir.h"
#include "tests/viz/example_page.h"
#include "viz/live.h"

namespace {

struct Fixture {
  viz::Session session{std::make_unique<kvtest::CountingPage>()};
  int64_t value() const { return session.page().counter("value").value(); }
};

constexpr const char* kStory =
    "# a comment\npage 99\nsay \"Two \\\"and\\\" three.\"\nadd 2\nexpect value 2\n\nadd 3  # five\n"
    "expect value >= 5\nfails add 6\nexpect value 5\n";

}  // namespace

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
  const std::string story = kStory;
  for (size_t n = 0; n < story.size(); ++n) {
    CAPTURE(n);
    try {
      const viz::Scenario part = viz::Scenario::parse(story.substr(0, n), "cut");
      CHECK(part.page.substr(0, 2) == std::string("99").substr(0, part.page.size()));
    } catch (const kv::UserError& error) {
      CHECK(std::string(error.what()).find("cut: ") == 0);
    }
  }
  CHECK_THROWS_AS(viz::Scenario::parse(std::string("page 99\0add 1", 13), "nul"), kv::UserError);
  CHECK_THROWS_WITH_AS(viz::Scenario::parse("add 1\n", "x"), doctest::Contains("line 1"),
                       kv::UserError);
}

TEST_CASE("a byte order mark before a scenario is no word") {
  CHECK(viz::Scenario::parse("\xEF\xBB\xBFpage 05\n", "bom").page == "05");
}

TEST_CASE("a scenario file that is missing or too large is named") {
  const kvtest::TempDir dir;
  CHECK_THROWS_WITH_AS(viz::Scenario::load(dir.path() / "none.txt"), doctest::Contains("none.txt"),
                       kv::UserError);
  std::ofstream(dir.path() / "big.txt") << std::string(2 << 20, 'x');
  CHECK_THROWS_WITH_AS(viz::Scenario::load(dir.path() / "big.txt"), doctest::Contains("big.txt"),
                       kv::UserError);
}

TEST_CASE_FIXTURE(Fixture, "a scenario plays step by step and is what was recorded") {
  session.load(viz::Scenario::parse(kStory, "story"));
  CHECK(session.step());
  CHECK(value() == 2);
  CHECK(session.caption() == "Two \"and\" three.");
  CHECK(session.step());
  CHECK(value() == 5);
  CHECK_FALSE(session.step());  // what is left changes nothing
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
  for (const char* line : {"add 2", "fly", "add", "add 1 2", "expect value 3", "expect speed 3",
                           "expect value ~ 3", "fails add 1", "fails", "say", "add \"1"}) {
    CAPTURE(line);
    CHECK_FALSE(session.try_run(line));
    CHECK(value() == 9);
  }
  CHECK(session.recorded("r").text() == "page 99\nadd 9\n");
  CHECK_THROWS_AS(session.load(viz::Scenario::parse("page 98\n", "other")), kv::UserError);
  CHECK(value() == 9);
}

TEST_CASE_FIXTURE(Fixture, "what a page refuses is reported with its line") {
  session.load(viz::Scenario::parse("page 99\nadd 1\n\nfly 2\n", "wrong"));
  CHECK_THROWS_WITH_AS(session.play_on(), doctest::Contains("line 4: "), kv::UserError);
  CHECK(value() == 1);
}

TEST_CASE_FIXTURE(Fixture, "a failing expectation stops the player and says where") {
  session.load(viz::Scenario::parse("page 99\nadd 1\nexpect value 2\nadd 1\n", "wrong"));
  session.playing = true;
  session.advance(100);
  CHECK_FALSE(session.playing);
  CHECK(session.log().back().error);
  CHECK(session.log().back().text == "line 3: expected value = 2, found 1");
  CHECK(value() == 1);
}

TEST_CASE_FIXTURE(Fixture, "a reset in a scenario empties the page, and the scenario goes on") {
  session.load(viz::Scenario::parse("page 99\nadd 1\nreset\nexpect value 0\nadd 2\n", "again"));
  session.play_on();
  CHECK(session.at_end());
  CHECK(value() == 2);
  CHECK(session.recorded("r").text() == "page 99\nadd 2\n");
}

TEST_CASE_FIXTURE(Fixture, "undo takes the scenario back with the page, and redo takes it on") {
  session.load(viz::Scenario::parse(
      "page 99\nsay one\nadd 1\nexpect value 1\nsay two\nadd 2\nexpect value 3\n", "steps"));
  CHECK(session.step());
  CHECK(session.step());
  CHECK(session.caption() == "two");
  session.undo();
  session.undo();
  CHECK(session.caption() == "one");
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

TEST_CASE_FIXTURE(Fixture, "a command that nobody knows does not count as a refusal") {
  for (const char* line : {"fails fly 2", "fails expect value 77", "fails say", "fails ad 6"}) {
    CAPTURE(line);
    CHECK_FALSE(session.try_run(line));
    CHECK(session.log().back().text.find("has no command") != std::string::npos);
  }
  CHECK(session.try_run("add 9"));
  CHECK(session.try_run("fails add 2"));
  for (const char* line : {"say one two", "reset now", "add \"1"}) {
    CAPTURE(line);
    CHECK_FALSE(session.try_run(line));
    CHECK(session.log().back().error);
    CHECK(value() == 9);
  }
}

TEST_CASE_FIXTURE(Fixture, "the log is bounded, whatever fills it") {
  CHECK(session.try_run("add 1"));
  for (int i = 0; i < 1200; ++i) i % 2 == 0 ? session.undo() : session.redo();
  CHECK(session.log().size() == 500);
}

TEST_CASE("a device that fails is reported in the log, and the window stays") {
  struct Failing : kvtest::CountingPage {
    std::string apply(const viz::Command& command) override {
      if (broken) throw kv::DeviceError("the device is gone");
      return CountingPage::apply(command);
    }
    bool broken = false;
  };
  auto page = std::make_unique<Failing>();
  Failing& failing = *page;
  viz::Session session(std::move(page));
  for (const char* line : {"add 1", "add 2", "add 3"}) CHECK(session.try_run(line));
  session.undo();
  failing.broken = true;
  CHECK_FALSE(session.try_run("add 3"));
  CHECK(session.log().back().text == "the device is gone");
  session.redo();
  CHECK(session.log().back().error);
  CHECK(session.can_redo());  // it was not done
  session.undo();
  CHECK(session.log().back().error);
  CHECK(session.page().counter("value") == 0);
  session.load(viz::Scenario::parse("page 99\n\nadd 1\n", "live"));
  CHECK_THROWS_WITH_AS(session.play_on(), "line 3: the device is gone", kv::UserError);
}

TEST_CASE("a live run stands still between tokens and ends with its owner") {
  int made = 0;
  bool returned = false;
  {
    viz::LiveRun run([&](const kv::TokenCallback& on_token) {
      while (on_token(0, made)) ++made;
      returned = true;
    });
    CHECK(run.tokens().empty());
    CHECK(run.step());
    CHECK(run.tokens().size() == 1);
    CHECK(run.step());
    CHECK(made == 1);
    CHECK_FALSE(run.finished());
  }
  CHECK(returned);  // the destructor cancelled it and waited
}

TEST_CASE("a live run that fails midway is reported as a failure, not as its end") {
  struct Failing : kv::Engine {
    kv::GenerateResult generate(std::span<const kv::Request>,
                                const kv::TokenCallback& on_token) override {
      for (int32_t token = 0; token < 3; ++token) on_token(0, token);
      throw kv::DeviceError("the device is gone");
    }
  };
  Failing engine;
  viz::LiveRequests live(engine, {kv::Request{}});
  viz::run_steps(&live, viz::parse_command("step 2"));
  CHECK(live.generated().size() == 3);
  CHECK_THROWS_WITH_AS(viz::run_steps(&live, viz::parse_command("step")),
                       "the run failed: the device is gone", kv::UserError);
  CHECK(live.finished());
}

TEST_CASE("a live run says how it ended") {
  viz::LiveRun done([](const kv::TokenCallback& on_token) { on_token(0, 5); });
  CHECK(done.step());
  CHECK(done.step());
  CHECK(done.finished());
  CHECK_FALSE(done.step());
  CHECK(done.error().empty());
  viz::LiveRun thrown([](const kv::TokenCallback&) { throw std::runtime_error("no"); });
  CHECK(thrown.step());
  CHECK(thrown.finished());
  CHECK(thrown.error() == "no");
}
