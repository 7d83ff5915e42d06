// The page of lesson 14, without a window.

#include "tests/support/readable.h"  // before the checks

#include "lessons/14_fp8_pages/page/page.h"
#include "tests/viz/fake_ui.h"
#include "viz/drawing/layout.h"
#include "viz/shell/scenario.h"

namespace {

void run(lesson14::Fp8Page& page, const std::string& line) {
  page.apply(viz::parse_command(line));
  page.check_invariants();
}

}  // namespace

TEST_CASE("a token's codes stay as they are, unless its block has one scale") {
  lesson14::Fp8Page page;
  for (const bool by_block : {false, true}) {
    for (const char* line : {"forget", by_block ? "rule block" : "rule token"}) run(page, line);
    run(page, "write 0.3 -0.13 0.02 0.4");
    CHECK(page.counter("exponent") == -10);
    run(page, "write 300 -13 0.2 4000");
    CHECK(page.counter("exponent") == 4);
    CHECK((*page.counter("changed") > 0) == by_block);
    run(page, "write 1 2 3");
    CHECK(page.counter("changed") == 0);
    CHECK(page.counter("exponent") == (by_block ? 4 : -7));
  }
  run(page, "rule token");  // the same tokens again
  CHECK(page.counter("exponent") == -7);
}

TEST_CASE("scale 1 saturates, and what is no number is refused") {
  lesson14::Fp8Page page;
  run(page, "rule one");
  run(page, "write 4000 0.0001 3");
  CHECK(page.counter("too_large") == 1);
  CHECK(page.counter("zeros") == 1);
  for (const char* line : {"write", "write one", "write 1 2 3 4 5 6 7", "write nan", "rule two"}) {
    CHECK_THROWS(run(page, line));
  }
  for (int i = 0; i < 3; ++i) run(page, "write 1");
  CHECK_THROWS(run(page, "write 1"));
  run(page, "forget");
  CHECK(page.counter("tokens") == 0);
}

TEST_CASE("the form writes a token with the numbers that stand in its field") {
  lesson14::Fp8Page page;
  kvtest::FakeUi ui(page);
  ui.click("write");
  CHECK(page.counter("tokens") == 1);
}

TEST_CASE("a number that is lost and has another code shows both") {
  lesson14::Fp8Page page;
  for (const char* line : {"rule block", "write 0.3 0.01", "write 4000 1"}) run(page, line);
  CHECK(page.counter("zeros") == 1);
  const viz::Scene scene = page.scene({860, 420});
  CHECK(scene.find("number 0/1")->edge.ink == viz::Ink::kError);
  REQUIRE(scene.find("number 0/1/changed") != nullptr);
  CHECK(scene.find("number 0/1/changed")->edge.ink == viz::Ink::kMark);
}

TEST_CASE("a bar is as long as it has tokens, whatever the memory") {
  lesson14::Fp8Page page;
  const auto length_per_token = [&](const char* format) {
    const viz::Scene scene = page.scene({860, 420});
    for (const std::string& fault : viz::layout_faults(scene)) FAIL_CHECK(fault);
    const auto tokens = static_cast<double>(*page.counter(std::string(format) + "_tokens"));
    return static_cast<double>(scene.find(format)->at.w) / tokens;
  };
  const double unit = length_per_token("bf16");
  for (const char* memory : {"8", "24", "80"}) {
    run(page, std::string("memory ") + memory);
    CHECK(length_per_token("bf16") == doctest::Approx(unit));
    CHECK(length_per_token("fp8") == doctest::Approx(unit));
  }
  run(page, "memory 1024");  // beyond the buttons
  CHECK(length_per_token("fp8") == doctest::Approx(length_per_token("bf16")));
}

TEST_CASE("the picture fits its room") {
  lesson14::Fp8Page page;
  for (const char* line :
       {"rule block", "write 3 -1.3 0.2 40 300 0.01", "write 0.003 -0.0013 0.0002 0.04",
        "write 4e30 -1e-30", "write 123456 -123456 1.2345e-9"}) {
    run(page, line);
    for (const viz::Room& room : {viz::Room{560, 330}, {860, 420}, {2300, 1200}, {357, 700}}) {
      for (const std::string& fault : viz::layout_faults(page.scene(room))) FAIL_CHECK(fault);
    }
  }
}
