// The simulator: what its buttons do to the block manager, what they refuse, and what its checks
// catch.

#include <doctest/doctest.h>

#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "lessons/05_refcount_cow/page_simulator.h"
#include "viz/page.h"
#include "viz/scenario.h"

namespace lesson05 {
std::unique_ptr<viz::Page> make_page(const viz::PageContext& context);
}

namespace {

using lesson05::Simulator;
using Names = std::vector<std::string>;

std::unique_ptr<viz::Page> new_page() {
  return lesson05::make_page({.model_dir = KV_SOURCE_DIR "/models/tiny", .device = "cpu"});
}

std::string run(viz::Page& page, const std::string& line) {
  std::string story = page.apply(viz::parse_command(line));
  page.check_invariants();
  return story;
}

/// All counters as one text: two pages in one state have one text.
std::string state_of(const viz::Page& page) {
  std::string text;
  for (const std::string& name : page.counter_names()) {
    text += name + "=" + std::to_string(page.counter(name).value()) + " ";
  }
  return text;
}

/// The command is refused, says `why`, and changes nothing.
void check_refused(viz::Page& page, const std::string& line, const std::string& why) {
  CAPTURE(line);
  const std::string before = state_of(page);
  std::string message;
  try {
    page.apply(viz::parse_command(line));
  } catch (const kv::UserError& error) {
    message = error.what();
  }
  CAPTURE(message);
  CHECK(message.find(why) != std::string::npos);
  CHECK(state_of(page) == before);
  page.check_invariants();
}

int64_t value(const viz::Page& page, const std::string& counter) {
  const auto found = page.counter(counter);
  REQUIRE(found.has_value());
  return *found;
}

/// A fork whose children write: every copy that can go wrong is in it.
void fork_and_write(Simulator& simulator) {
  simulator.add("A");
  simulator.append(Names{"A"}, 6);
  simulator.fork("A", Names{"B"});
  simulator.append(Names{"A"}, 1);
  simulator.append(Names{"B"}, 1);
}

}  // namespace

TEST_CASE("every slot holds what its sequence wrote") {
  Simulator simulator(4, 4);
  fork_and_write(simulator);
  simulator.check();
  const auto& a = simulator.manager().table(simulator.all().at("A").number);
  const auto& b = simulator.manager().table(simulator.all().at("B").number);
  CHECK(simulator.text(a.slot(5)) == "A5");
  CHECK(simulator.text(b.slot(5)) == "A5");
  CHECK(simulator.text(a.slot(6)) == "A6");
  CHECK(simulator.text(b.slot(6)) == "B6");
  simulator.fork("B", Names{"C"});
  simulator.append(Names{"C"}, 1);
  const auto& c = simulator.manager().table(simulator.all().at("C").number);
  CHECK(simulator.text(c.slot(6)) == "B6");
  CHECK(simulator.text(c.slot(7)) == "C7");
}

TEST_CASE("copies that go wrong are caught by the labels") {
  using lesson05::BlockCopy;
  const lesson05::CopyLabels wrong_ways[] = {
      [](std::vector<int32_t>& labels, const BlockCopy& copy, int size) {  // the wrong direction
        lesson05::copy_labels(labels, {copy.destination, copy.source}, size);
      },
      [](std::vector<int32_t>&, const BlockCopy&, int) {},            // no copy at all
      [](std::vector<int32_t>& labels, const BlockCopy& copy, int) {  // one token too few
        lesson05::copy_labels(labels, copy, 1);
      },
  };
  for (const auto& copy : wrong_ways) {
    Simulator simulator(4, 4, copy);
    fork_and_write(simulator);
    CHECK_THROWS_AS(simulator.check(), std::logic_error);
  }
}

TEST_CASE("a copy that throws leaves the simulator as it was") {
  Simulator simulator(4, 4, [](std::vector<int32_t>&, const lesson05::BlockCopy&, int) {
    throw std::runtime_error("no");
  });
  CHECK_THROWS_AS(fork_and_write(simulator), std::runtime_error);
  simulator.check();
  CHECK(simulator.all().at("A").labels.size() == 6);
  CHECK(simulator.manager().num_copies() == 0);
}

TEST_CASE("what happened is said in plain words") {
  const auto page = new_page();
  run(*page, "new A");
  CHECK(run(*page, "append A 64") == "append 64 to A: 4 new blocks");
  CHECK(run(*page, "fork A B") == "fork B from A: 4 blocks shared, ref 1 -> 2");
  CHECK(run(*page, "fork A C D") == "fork C, D from A: 4 blocks shared, ref 2 -> 4");
  CHECK(run(*page, "free D") == "free D: 0 blocks back to the pool, 4 held by others");
  CHECK(run(*page, "append A 1") == "append 1 to A: 1 new block");
  CHECK(run(*page, "fork A E") == "fork E from A: 5 blocks shared, each ref + 1");
  CHECK(run(*page, "append E 2") ==
        "append 2 to E: no new block; block 4 was shared: copied to 5, ref 2 -> 1");
}

TEST_CASE("two writers of one half-full block keep their own bytes for one copy") {
  const auto page = new_page();
  for (const char* line : {"new A", "append A 20", "fork A B", "append A 1", "append B 1"}) {
    run(*page, line);
  }
  CHECK(value(*page, "copies") == 1);
  CHECK(value(*page, "used") == 3);
}

TEST_CASE("a copy into a full pool is refused and nothing has changed") {
  const auto page = new_page();
  for (const char* line : {"resize 3 16", "new A", "append A 40", "fork A B"}) run(*page, line);
  check_refused(*page, "append A 1", "needs 1 block, 0 are free");
  check_refused(*page, "append B 1", "needs 1 block, 0 are free");
  run(*page, "free B");
  run(*page, "append A 1");
  CHECK(value(*page, "copies") == 0);
}

TEST_CASE("an append that runs out midway takes nothing") {
  const auto page = new_page();
  for (const char* line : {"resize 4 16", "new A", "new B", "append all 16"}) run(*page, line);
  check_refused(*page, "append A 48", "needs 3 blocks, 2 are free");
  check_refused(*page, "append all 17", "needs 4 blocks, 2 are free");
  run(*page, "append all 16");
  CHECK(value(*page, "free") == 0);
}

TEST_CASE("wrong commands are refused and change nothing") {
  const auto page = new_page();
  check_refused(*page, "append all 1", "there is no sequence");
  check_refused(*page, "free A", "there is no sequence A");
  run(*page, "new A");
  check_refused(*page, "new A", "there is a sequence A already");
  check_refused(*page, "new a-b", "letters and digits");
  check_refused(*page, "new all", "not all");
  check_refused(*page, "fork A B B", "there is a sequence B already");
  check_refused(*page, "fork A A", "there is a sequence A already");
  check_refused(*page, "append B 1", "there is no sequence B; there are A");
  for (const char* line : {"append A",       "append A 0",   "append A -1",
                           "append A x",     "append A 1 2", "append A 99999999999999999999",
                           "fork A",         "new",          "free",
                           "free A B",       "resize 64",    "resize 0 16",
                           "resize 4097 16", "resize 64 0",  "resize 64 12",
                           "resize 64 512",  "step",         "stop",
                           "live",           "live 4",       "live 0 \"a\"",
                           "live 9 \"a\"",   "live 4 \"\"",  "live beams 4",
                           "live 4 \"a\" 0", "explode A"}) {
    check_refused(*page, line, "");
    CHECK_THROWS_AS(page->apply(viz::parse_command(line)), kv::UserError);
  }
}

TEST_CASE("no more sequences than the page can show") {
  const auto page = new_page();
  run(*page, "new A");
  for (int i = 1; i < Simulator::kMaxSequences; ++i) {
    run(*page, "fork A " + viz::letters(i));
  }
  check_refused(*page, "new X1", "there are 64 of at most 64 sequences");
  check_refused(*page, "fork A X1", "there are 64 of at most 64 sequences");
}

TEST_CASE("reset and the same commands give the same state") {
  const auto page = new_page();
  std::vector<std::string> done;
  std::mt19937 random(5);
  const auto below = [&](size_t end) { return static_cast<int>(random() % end); };
  const std::string sizes[] = {"resize 16 4", "resize 9 1", "resize 64 16", "resize 5 32"};
  for (int i = 0; i < 3000; ++i) {
    const std::string name = viz::letters(below(6));
    const std::string other = viz::letters(below(6));
    std::string line;
    const int choice = below(100);
    if (choice < 20)
      line = "new " + name;
    else if (choice < 60)
      line = "append " + name + " " + std::to_string(1 + below(20));
    else if (choice < 65)
      line = "append all " + std::to_string(1 + below(4));
    else if (choice < 80)
      line = "fork " + name + " " + other;
    else if (choice < 99)
      line = "free " + name;
    else
      line = sizes[below(4)];
    CAPTURE(line);
    try {
      run(*page, line);
      done.push_back(line);
    } catch (const kv::UserError&) {
      page->check_invariants();
    }
  }
  CHECK(done.size() > 1000);
  const std::string before = state_of(*page);
  page->reset();
  CHECK(value(*page, "sequences") == 0);
  CHECK(value(*page, "total") == 64);
  for (const std::string& line : done) run(*page, line);
  CHECK(state_of(*page) == before);
}

TEST_CASE("a live run leaves the simulator as it was and repeats to the bit") {
  const auto page = new_page();
  run(*page, "new A");
  run(*page, "append A 20");
  const std::string before = state_of(*page);
  std::string first;
  for (int round = 0; round < 2; ++round) {
    run(*page, "live 3 \"Once upon a time there was a dog\" 12");
    check_refused(*page, "append A 1", "`stop`");
    check_refused(*page, "live 2 \"a\"", "`stop`");
    std::string story;
    for (int i = 0; i < 20; ++i) story += run(*page, "step") + state_of(*page);
    if (round == 0) first = story;
    CHECK(story == first);
    run(*page, "stop");
    CHECK(state_of(*page) == before);
  }
  run(*page, "live beams 3 \"Once upon a time\" 8");
  run(*page, "step 100");
  CHECK(value(*page, "used") == 0);
  check_refused(*page, "step", "has ended");
  page->reset();  // while the run is there
  CHECK(value(*page, "live") == 0);
}

TEST_CASE("a live run that the pool cannot hold is refused with both numbers") {
  const auto page = new_page();
  run(*page, "resize 2 16");
  check_refused(*page, "live 4 \"Once upon a time\" 64", "the pool has 2");
}
