// A scenario as it is shown: its beginning, its sentences, its steps.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "common/error.h"
#include "tests/viz/example_page.h"
#include "viz/shell/session.h"

using Fixture = kvtest::CountingSession;

TEST_CASE_FIXTURE(Fixture, "play shows a sentence, and a moment later what it announces") {
  CHECK_FALSE(session.can_undo());
  load(
      "say \"four words are here\"\nadd 1\nadd 2\nsay \"two more "
      "words than one\"\nadd 4\nsay bye\n",
      "told");
  CHECK(session.can_undo());
  CHECK(session.caption() == "Told");  // no step has run that a sentence could be about
  CHECK(session.position() == 0);
  session.playing = true;
  const double read = viz::seconds_to_read("four words are here");
  CHECK(read == doctest::Approx(1.2 + 4 * 0.28));
  session.advance(0.01);
  CHECK(session.caption() == "four words are here");  // first the sentence
  CHECK(value() == 0);
  CHECK_FALSE(session.is_due(0.79));
  session.advance(0.81);  // it is read while it is done
  CHECK(value() == 1);
  session.advance(session.seconds_per_step + 0.01);
  CHECK(value() == 3);
  session.advance(read - 0.81 - session.seconds_per_step - 0.05);
  CHECK(session.caption() == "four words are here");
  session.advance(0.1);
  CHECK(session.caption() == "two more words than one");
  CHECK(value() == 3);
  session.advance(0.81);
  CHECK(value() == 7);
  session.advance(viz::seconds_to_read(session.caption()) - 0.8);
  CHECK(session.caption() == "bye");
  CHECK(session.playing);
  session.advance(viz::seconds_to_read("bye") + 0.01);
  CHECK_FALSE(session.playing);
}

TEST_CASE_FIXTURE(Fixture, "a scenario begins with what is before its first sentence") {
  load("add 4\nexpect value 4\nsay one\nadd 1\nsay two\nadd 2\n", "begun");
  CHECK(value() == 4);
  CHECK(session.caption() == "Begun");
  CHECK(session.steps_done() == 0);
  CHECK(session.num_steps() == 2);
  while (session.step()) CHECK_FALSE(session.caption().empty());
  CHECK(value() == 7);
  session.go_to_step(0);
  CHECK(value() == 4);
  session.step();
  session.reset();
  CHECK(value() == 4);
  CHECK(session.try_run("add 1"));  // one's own: the scenario is put away, its beginning stays
  CHECK(session.scenario() == nullptr);
  CHECK(session.recorded("r").text() == "page 99\nadd 4\nadd 1\n");
  session.undo();
  CHECK(session.scenario() != nullptr);
  CHECK(value() == 4);
  CHECK_THROWS_AS(load("add 1\nexpect value 9\nsay one\nadd 1\n", "no"), kv::UserError);
  CHECK(value() == 4);  // as it was
  CHECK(session.caption() == "Begun");
}

TEST_CASE_FIXTURE(Fixture, "a state has one sentence, played, stepped to, or walked to") {
  load("add 1\nsay one\nadd 1\nadd 1\nsay two\nadd 1\nsay three\nadd 1\n", "told");
  std::vector<std::string> played(session.num_steps() + 1);
  session.playing = true;
  for (size_t seen = 0; session.playing;) {
    session.advance(0.05);
    if (session.steps_done() != seen) played[seen = session.steps_done()] = session.caption();
  }
  session.reset();
  for (size_t step = 1; session.step(); ++step) CHECK(session.caption() == played[step]);
  for (size_t step = 1; step <= session.num_steps(); ++step) {
    session.go_to_step(step);
    CHECK(session.caption() == played[step]);
  }
}

TEST_CASE_FIXTURE(Fixture, "a page is on its scenario while that alone has led to its state") {
  CHECK_FALSE(session.is_on_scenario());  // there is none
  load("add 1\nsay one\nadd 2\nfails add 100\nsay two\nadd 3\n", "told");
  for (size_t step = 0; step < 3; ++step) {
    CAPTURE(step);
    CHECK(session.is_on_scenario());
    session.step();
  }
  CHECK(session.is_on_scenario());
  session.step_back();
  CHECK(session.is_on_scenario());
  session.try_run("add 1");
  CHECK(session.scenario() != nullptr);
  CHECK_FALSE(session.is_on_scenario());
  session.undo();
  CHECK(session.is_on_scenario());
  session.reset();
  CHECK(session.is_on_scenario());
}
