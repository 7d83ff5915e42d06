// The page: guesses in slots, what is accepted and struck out, what it says of it, and that its
// live run is the engine.

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "page/lookahead.h"
#include "tests/viz/page_fixture.h"
#include "viz/drawing/layout.h"

namespace {

using kvtest::count;
using kvtest::kPageContext;
using kvtest::note;
using kvtest::shape;

struct Fixture : kvtest::PageFixture {
  Fixture() : PageFixture(std::make_unique<lesson09::LookaheadPage>(kPageContext)) {}
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a guess is laid into the slots after the tokens, from where it stood") {
  run({"new A \"the red cat sat on the mat and the red\" \"cat ran off and slept\"", "guess"});
  const viz::Scene scene = picture();
  CHECK(note(scene) ==
        "A ends with \"the red\", as before: it guesses the 4 tokens that came next.");
  struct Guess {
    const char *slot, *word, *from;
  };
  for (const Guess& guess : {Guess{"slot 3/2", "cat", "slot 1/2"},
                             {"slot 3/3", "sat", "slot 1/3"},
                             {"slot 4/0", "on", "slot 2/0"},
                             {"slot 4/1", "the", "slot 2/1"}}) {
    CAPTURE(guess.slot);
    const viz::Shape token = shape(scene, std::string(guess.slot) + "/token");
    CHECK(shape(scene, guess.slot).dashed);
    CHECK(shape(scene, guess.slot).fill == viz::paint(viz::Ink::kNone));
    CHECK(token.text == guess.word);
    CHECK(token.from == guess.from);
  }
  CHECK(scene.find("slot 4/2/token") == nullptr);
  // The n-gram, where it ends the text and where it stood before.
  for (const auto& [bar, slot] : {std::pair("A/seen 0", "slot 1/0"),
                                  {"A/seen 1", "slot 1/1"},
                                  {"A/seen 8", "slot 3/0"},
                                  {"A/seen 9", "slot 3/1"}}) {
    CHECK(shape(scene, slot).at.holds(shape(scene, bar).at));
  }
  CHECK(scene.find("A/seen 2") == nullptr);
  CHECK(shape(scene, "pass 1/A/text").text == "10");
  CHECK(count(scene, "pass 1/A/guess") == 4);
  check_refused("guess", "run the pass");
}

TEST_CASE_FIXTURE(Fixture, "an n-gram that overlaps its earlier place is marked once") {
  run({"new A \"a b a b a b\" \"a b\"", "guess"});
  for (const std::string& fault : viz::layout_faults(picture())) FAIL_CHECK(fault);
  CHECK(count(picture(), "A/seen") == 6);
}

TEST_CASE_FIXTURE(Fixture, "the first wrong guess and those after it are struck out") {
  run({"new A \"the red cat sat on the mat and the red\" \"cat ran off and slept\"", "guess",
       "pass"});
  const viz::Scene scene = picture();
  CHECK(note(scene) ==
        "The model says \"ran\" and not \"sat\": A drops 3 guesses, and gives back block 4.");
  CHECK_FALSE(shape(scene, "slot 3/2").dashed);
  CHECK(shape(scene, "slot 3/2").fill == viz::soft(0));  // as any token
  CHECK(shape(scene, "slot 3/3").pattern == viz::Pattern::kCrossed);
  CHECK(shape(scene, "slot 3/3/token").struck);
  CHECK(scene.find("slot 4/0") == nullptr);  // a free block has no slots here
  CHECK(shape(scene, "block 4").at.y > shape(scene, "block 3").at.bottom());
  CHECK(shape(scene, "A/next/token").text == "ran");  // drawn, and without a slot
  for (const char* gone : {"slot 4/0/token", "slot 4/1/token"}) {
    const auto leaving = std::ranges::find(scene.leaving(), gone, &viz::Scene::Leaving::id);
    REQUIRE(leaving != scene.leaving().end());
    CHECK(leaving->struck);
  }
  CHECK(count(scene, "pass 1/A/guess") == 4);
  CHECK(shape(scene, "pass 1/total").text == "+2");

  run({"guess"});  // "ran" is written over "sat"
  const viz::Scene after = picture();
  CHECK(shape(after, "slot 3/3/token").text == "ran");
  CHECK_FALSE(shape(after, "slot 3/3/token").struck);
  CHECK(note(after) == "No guess: the last two tokens of A have not come before.");
}

TEST_CASE_FIXTURE(Fixture, "passes with and without guesses draw the same tokens") {
  run({"new A \"a b c d a b\" \"c d a b c d a b c d\"", "new B \"e f g e f\" \"x y z e f g\"",
       "step 60"});
  CHECK(value("ended") == 2);
  CHECK(value("tokens") == 16);
  CHECK(value("without") == 10);  // the longer answer
  CHECK(value("passes") < 10);
  CHECK(value("free") == 12);
  CHECK(shape(picture(), "passes").text ==
        std::to_string(value("passes")) + " passes; 10 without guesses");
  run({"guesses 0", "new A \"a b c d a b\" \"c d a b c d a b c d\"", "step 60"});
  CHECK(value("passes") == 10);
  CHECK(value("without") == 10);
  CHECK(value("proposed") == 0);
}

TEST_CASE_FIXTURE(Fixture, "a guess takes no block that others need, and says so") {
  run({"pool 6 4", "new A \"one day the red cat sat on the mat and the red\" \"cat sat on a mat\"",
       "new B \"a prompt of nine words that do not repeat\" \"ever\"", "guess"});
  CHECK(note(picture()) ==
        "No block is free: no guess of A has a slot. No request gives way for a guess.");
  CHECK(value("B.blocks") == 3);
  CHECK(value("free") == 0);
  run({"pass"});
  CHECK(value("preemptions") == 0);
  // Of four guesses two have a slot.
  run({"pool 6 4", "new A \"the red cat sat on the mat and the red\" \"cat sat on a mat\"",
       "new B \"a prompt of nine words that do not repeat\" \"ever\"", "guess"});
  CHECK(note(picture()) ==
        "No block is free: 2 of 4 guesses of A have a slot. No request gives way for a guess.");
  // While C waits, the block that is free is not for guesses.
  run({"pool 7 4", "new A \"one day the red cat sat on the mat and the red\" \"cat sat on a mat\"",
       "new B \"a prompt of nine words that do not repeat\" \"ever\"",
       "new C \"this one is too long to come in now\" \"sorry\"", "guess"});
  CHECK(value("free") == 1);
  CHECK(value("proposed") == 0);
  CHECK(note(picture()) == "A request waits for blocks, so A takes none for guesses.");
  CHECK(shape(picture(), "request C/name").text.starts_with("C waits"));
}

TEST_CASE_FIXTURE(Fixture, "a live run is the engine, guess by guess") {
  run({"live \"quack quack quack quack quack quack\" 26"});
  CHECK(value("laid") == 4);
  check_refused("new B \"a\" \"b\"", "the engine is running");
  check_refused("live \"Once\" 3", "the engine is running");
  run({"step"});  // the first pass; the engine is before the next guess
  const viz::Scene between = picture();
  CHECK(shape(between, "A/next/token").text == "ack");
  for (const viz::Shape& one : between.shapes()) {
    if (one.id.starts_with("slot ")) CHECK(one.pattern != viz::Pattern::kHatched);
  }
  bool looked = false;
  while (page.next_step() == "step") {
    run({"step"});
    looked = looked || (value("laid") == 0 && value("free") < 12);
  }
  CHECK(looked);  // it stood still between a pass and the next guesses

  viz::Live live(kPageContext);
  const kv::Request request = live.request("quack quack quack quack quack quack", 26);
  lesson09::LookaheadEngine engine(live.model(), {.block_size = 4, .num_blocks = 12});
  const kv::GenerateResult result = engine.generate({&request, 1});
  CHECK(value("proposed") == result.counters.named("guesses_proposed"));
  CHECK(value("accepted") == result.counters.named("guesses_accepted"));
  CHECK(value("passes") == result.counters.passes);
  CHECK(value("tokens") == std::ssize(result.completions[0].tokens));
  CHECK(value("without") == value("tokens"));
  CHECK(value("accepted") > 8);
  CHECK(value("free") == 12);
  run({"stop"});
  CHECK(value("passes") == 0);
  run({"live \"quack quack\" 9", "step 3", "stop"});  // cancelled in its middle
  CHECK(value("free") == 12);
}

TEST_CASE_FIXTURE(Fixture, "what cannot be done is refused and changes nothing") {
  check_refused("guess", "no request runs");
  check_refused("pass", "no request runs");
  check_refused("stop", "there is no live run");
  run({"pool 3 4", "new A \"a b a b\" \"a b a b\""});
  check_refused(
      "new B \"one two three four five six seven\" \"eight nine ten eleven twelve 13 14\"",
      "it needs 4");
  check_refused("new A \"x\" \"y\"", "there is a request A already");
  check_refused("new B \"x\" \" \"", "there are no words");
  check_refused("guesses 9", "found 9");
  check_refused("pool 3 3", "a power of two as SIZE");  // the engine takes no other one
}

TEST_CASE_FIXTURE(Fixture, "guess and pass take turns as the filled button, then a request comes") {
  CHECK(ui.filled() == "new other");
  ui.click("new other");
  for (int turns = 0; value("ended") == 0; ++turns) {
    REQUIRE(turns < 10);
    CHECK(ui.filled() == "guess");
    ui.click("guess");
    CHECK(ui.filled() == "pass");
    ui.click("pass");
  }
  CHECK(ui.filled() == "new other");
  ui.click("new same");
  CHECK(value("B.ended") == 0);
}
