// Every page of every lesson: every control can be clicked in every state.

#define STB_IMAGE_IMPLEMENTATION
#define STBI_ONLY_PNG
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#ifndef __clang__  // it knows no such warning
#pragma GCC diagnostic ignored "-Wuseless-cast"
#endif
#include <stb_image.h>
#pragma GCC diagnostic pop

#include <imgui.h>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/shell.h"
#include "tests/support/shortened.h"
#include "tests/viz/page_fixture.h"
#include "viz/pages.h"
#include "viz/shell/files.h"
#include "viz/shell/headless.h"
#include "viz/shell/pictures.h"

namespace {

using kvtest::state_of;

/// A shell with all pages, laid out on a large picture.
struct Fixture {
  explicit Fixture(int width = 1600, int height = 1200)
      : shell(
            [] {
              return viz::make_pages({.model_dir = KV_SOURCE_DIR "/models/tiny", .device = "cpu"});
            },
            {}, viz::on_disk(dir.path())),
        ui(shell, width, height, 1) {}
  /// Names of the page's buttons that can be clicked now.
  std::vector<std::string> clickable() const {
    std::vector<std::string> names;
    for (const auto& [name, control] : shell.probe().controls) {
      const bool of_shell = name == "record" || name == "open" || name == "load" ||
                            name == "help" || name.rfind("tab ", 0) == 0;
      if (control.is_button && control.visible && control.disabled_because.empty() && !of_shell) {
        names.push_back(name);
      }
    }
    return names;
  }
  kvtest::TempDir dir;
  viz::Shell shell;
  viz::Headless ui;
};

struct SmallFixture : Fixture {  // for tests that draw many pictures
  SmallFixture() : Fixture(800, 600) {}
};

/// The largest that a colour of two pictures differs by, 0 to 255.
int largest_difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
  REQUIRE(a.size() == b.size());
  int most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

// Dear ImGui takes reciprocal square roots with rsqrtss: good to 1.5 / 4096, and what is left
// differs between makers of CPUs. A line's edge may therefore be off by kShake pixels,
constexpr float kShake = 1e-3f;
// and the colour of a pixel by kTolerance of 255.
constexpr int kTolerance = 2;

/// Moves every vertex of the last frame by up to `most` pixels each way.
void shake_vertices(float most) {
  std::mt19937 rng(11);
  const auto moved = [&](float at) {
    return at + most * (static_cast<float>(rng() % 2001) - 1000) / 1000;
  };
  const ImDrawData& data = *ImGui::GetDrawData();
  for (int n = 0; n < data.CmdListsCount; ++n) {
    for (ImDrawVert& vertex : data.CmdLists[n]->VtxBuffer) {
      vertex.pos = ImVec2(moved(vertex.pos.x), moved(vertex.pos.y));
    }
  }
}

}  // namespace

TEST_CASE("of every choice of every page the button that is clicked is lit, and no other") {
  int num_choices = 0;
  for (const auto& page : viz::make_pages({})) {
    CAPTURE(page->info().lesson);
    kvtest::FakeUi ui(*page);
    const auto all = ui.buttons();
    for (const auto& entry : all) {
      const std::string& name = entry.first;
      const std::string verb = entry.second.command.substr(0, entry.second.command.find(' '));
      if (ui.lit(verb).empty() || name == verb) continue;  // a field's button has other values
      CAPTURE(name);
      if (ui.reason(name).empty()) ui.click(name);
      CHECK(ui.lit(verb) == std::vector<std::string>{name});
      ++num_choices;
    }
  }
  CHECK(num_choices >= 30);
}

namespace {

/// Large buttons: each has a letter that means nothing to the window.
void check_keys(const std::vector<viz::Button>& row) {
  CHECK(row.size() <= 7);
  std::string keys;
  for (const viz::Button& button : row) {
    CAPTURE(button.name);
    CHECK(std::isupper(static_cast<unsigned char>(button.key)) != 0);
    CHECK(std::string("MRT").find(button.key) == std::string::npos);
    CHECK(keys.find(button.key) == std::string::npos);
    keys += button.key;
  }
}

/// Clicks the filled button `clicks` times; each time there must be one.
void follow_filled(viz::Session& session, int clicks) {
  for (int i = 0; i < clicks; ++i) {
    CAPTURE(i);
    const std::vector<viz::Button> row = session.page().actions();
    check_keys(row);
    const auto is_filled = [&](const viz::Button& button) {
      return button.asked && session.page().why_not(viz::parse_command(button.command)).empty();
    };
    REQUIRE(std::ranges::count_if(row, is_filled) == 1);
    const std::string command = std::ranges::find_if(row, is_filled)->command;
    CAPTURE(command);
    REQUIRE(session.try_run(command));
  }
}

/// The part of a picture whose boxes look different than before, or are new.
float changed_part(const viz::Scene& before, const viz::Scene& after) {
  float area = 0;
  for (const viz::Shape& shape : after.shapes()) {
    const viz::Shape* const was = before.find(shape.id);
    const bool same = was != nullptr && was->at == shape.at && was->fill == shape.fill &&
                      was->edge == shape.edge && was->pattern == shape.pattern;
    if (shape.kind == viz::Shape::Kind::kBox && !shape.over && !same)
      area += shape.at.w * shape.at.h;
  }
  return area / (after.room().w * after.room().h);
}

}  // namespace

TEST_CASE("who clicks the filled button only sees what the lesson is about") {
  const std::map<std::string, std::string> seen{
      {"01", "generated"}, {"02", "waiting"}, {"03", "used"},     {"04", "done"},
      {"05", "copies"},    {"06", "found"},   {"07", "revived"},  {"08", "ended"},
      {"09", "accepted"},  {"10", "hit"},     {"11", "hit.host"}, {"12", "restored"},
      {"13", "found"},     {"14", "changed"}};
  size_t num_pages = 0;
  for (auto& page : viz::make_pages({.model_dir = KV_SOURCE_DIR "/models/tiny", .device = "cpu"})) {
    viz::Session session(std::move(page));
    const std::string lesson = session.page().info().lesson;
    CAPTURE(lesson);
    if (session.page().actions().empty()) continue;
    ++num_pages;
    const viz::Scene opened = session.page().scene({});
    follow_filled(session, 1);
    CHECK(changed_part(opened, session.page().scene({})) > 0.04f);
    int64_t most = 0;
    for (int i = 0; i < 60; ++i) {
      follow_filled(session, 1);
      most = std::max(most, session.page().counter(seen.at(lesson)).value());
    }
    CAPTURE(seen.at(lesson));
    CHECK(most > 0);
    if (!session.try_run("live \"Once upon a time\" 8")) continue;
    follow_filled(session, 2);
    while (!session.page().next_step().empty()) {
      REQUIRE(session.try_run(session.page().next_step()));
    }
    follow_filled(session, 1);  // stops it
    CHECK_FALSE(session.page().why_not({.verb = "stop", .args = {}}).empty());
  }
  CHECK(num_pages == seen.size());
}

TEST_CASE_FIXTURE(Fixture, "every control that is enabled can be clicked in many states" *
                               doctest::test_suite("sweep")) {
  const int64_t clicks = kvtest::number_from("KV_CLICKS", 400);
  for (const auto& page : viz::make_pages({})) {
    const std::string lesson = page->info().lesson;
    CAPTURE(lesson);
    shell.select(lesson);
    std::mt19937 rng(7);
    for (int64_t click = 0; click < clicks; ++click) {
      ui.frame();
      for (const auto& [name, control] : shell.probe().controls) {
        CHECK_FALSE(name.empty());
        CHECK(control.disabled_because.find("no such command") == std::string::npos);
      }
      const std::vector<std::string> names = clickable();
      REQUIRE_FALSE(names.empty());
      const std::string& name = names[rng() % names.size()];
      CAPTURE(name);
      ui.click(name);
      shell.session().page().check_invariants();
    }
    const std::string before = state_of(shell.session().page());
    if (shell.session().can_undo()) {
      shell.session().undo();
      shell.session().redo();
      CHECK(state_of(shell.session().page()) == before);
    }
  }
}

TEST_CASE_FIXTURE(Fixture,
                  "what was said before a reset gives no other tokens, and no other hashes") {
  const auto played = [&] {
    for (const char* line : {"bits 2", "ask A \"a b c d e f g h i j k l\"",
                             "ask B \"m n o p q r s t u v w x\"", "ask C \"a b c d m n o p a\""}) {
      CHECK(shell.session().try_run(line));
    }
    const viz::Scene scene = shell.session().page().scene({900, 500});
    std::string hashes;
    for (const viz::Shape& shape : scene.shapes()) {
      if (shape.id.ends_with("/hash")) hashes += shape.text + " ";
    }
    return state_of(shell.session().page()) + hashes;
  };
  shell.select("06");
  const std::string first = played();
  CHECK(first.find('#') != std::string::npos);
  shell.session().reset();
  CHECK(shell.session().try_run("ask Z \"x w v u t s r q p o n m l\""));
  shell.session().reset();
  CHECK(played() == first);
}

TEST_CASE_FIXTURE(Fixture, "a recorded session is loaded again and plays to the same state") {
  shell.select("05");
  ui.frame();
  for (const char* name : {"new", "B/append 16", "B/fork 3", "record"}) ui.click(name);
  const std::string state = state_of(shell.session().page());
  ui.click("reset");
  CHECK(state_of(shell.session().page()) != state);
  shell.select("02");
  ui.frame();
  ui.click("open");
  ui.click("load");                              // the field names what was saved; its page opens
  for (int i = 0; i < 5; ++i) ui.click("step");  // the opening, too
  CHECK(state_of(shell.session().page()) == state);
  CHECK_THROWS_WITH(ui.click("step"), doctest::Contains("at its end"));
}

TEST_CASE_FIXTURE(Fixture, "what is saved overwrites nothing, and can be chosen from a list") {
  shell.select("05");
  ui.frame();
  ui.click("new");
  ui.click("record");
  ui.click("B/append 16");
  ui.click("record");
  const std::string first = (dir.path() / "recorded-05-001.txt").string();
  const std::string second = (dir.path() / "recorded-05-002.txt").string();
  CHECK(shell.notice() == "saved to " + second);
  CHECK(viz::Scenario::load(first).commands.size() == 3);
  CHECK(viz::Scenario::load(second).commands.size() == 4);
  std::ofstream(dir.path() / "notes.txt") << "no scenario\n";
  ui.click("open");
  CHECK_FALSE(shell.probe().controls.contains("load/" + (dir.path() / "notes.txt").string()));
  ui.click("load/" + first);
  CHECK(shell.session().num_steps() == 3);
}

TEST_CASE_FIXTURE(Fixture, "what cannot be saved is told with its whole path") {
  shell.select("05");
  ui.frame();
  ui.click("new");
  std::filesystem::remove_all(dir.path());
  ui.click("record");
  CHECK(shell.notice() == "cannot write " + (dir.path() / "recorded-05-001.txt").string() +
                              "; begin in a folder of yours");
}

TEST_CASE_FIXTURE(Fixture, "play lets a live run go on until it has ended, and nothing moves") {
  shell.select("01");
  ui.frame();
  const float x = shell.probe().controls.at("live/step").x;
  shell.session().seconds_per_step = 0;
  ui.type(' ');
  for (int i = 0; i < 40; ++i) ui.frame();
  ui.click("more");
  CHECK_FALSE(shell.probe().controls.contains("live/start"));  // until the run is stopped
  CHECK(shell.probe().controls.at("live/step").x == x);
  CHECK(*shell.session().page().counter("generated") == 40);
  CHECK_FALSE(shell.session().playing);
}

TEST_CASE_FIXTURE(Fixture, "a control that is absent or disabled cannot be clicked by mistake") {
  CHECK_THROWS_WITH(ui.click("no such thing"), doctest::Contains("no control"));
  CHECK_THROWS_WITH(ui.click("undo"), doctest::Contains("nothing has been done"));
}

TEST_CASE_FIXTURE(Fixture,
                  "the page about a warp goes through lines, requests and lanes by clicks") {
  shell.select("warp");
  const auto value = [&](const char* name) { return shell.session().page().counter(name); };
  ui.frame();
  CHECK(value("followed") == 3);  // as it opens
  for (const char* name : {"open/strided", "request after", "lane 5"}) ui.click(name);
  CHECK(value("moved") == 32);
  CHECK(value("request") == 2);
  CHECK(value("followed") == 5);
  for (const char* name : {"lane 5", "line 2"}) ui.click(name);
  CHECK(value("followed") == -1);
  for (const char* line : {"unfollow", "line 9"}) CHECK_FALSE(shell.session().try_run(line));
  CHECK(value("line") == 2);
  CHECK(value("request") == 1);
  CHECK(value("moved") == 4);
  CHECK_THROWS_WITH(ui.click("line after"), doctest::Contains("there are 2 lines"));
  ui.click("open/one_bank");
  ui.click("line 4");
  CHECK(value("moved") == 32);  // passes
  const auto before = ui.picture();
  ui.click("lane 31");
  CHECK(ui.picture() != before);
  CHECK(value("followed") == 31);
  shell.session().undo();
  CHECK(value("followed") == -1);
  CHECK_FALSE(shell.session().try_run("open /none.json"));
  CHECK(value("line") == 4);  // as it was
}

TEST_CASE_FIXTURE(Fixture, "a pool of 4,096 blocks in long tables is drawn") {
  for (const char* lesson : {"03", "05"}) {
    shell.select(lesson);
    CHECK(shell.session().try_run("resize 4096 16"));
    for (const char* name : {"A", "B", "C", "D", "E", "F", "G", "H"}) {
      CHECK(shell.session().try_run(std::string("new ") + name));
      CHECK(shell.session().try_run(std::string("append ") + name + " 8192"));
    }
    CHECK(*shell.session().page().counter("free") == 0);
    ui.frame();
    CHECK(ui.picture().size() == size_t{1600} * 1200 * 3);
    shell.session().reset();
  }
}

TEST_CASE("the pictures of whole windows show what the code draws") {
  // Another font or another version of Dear ImGui draws letters a little differently.
  if (std::string(KV_VIZ_FONT).empty() || IMGUI_VERSION_NUM != 18600) {
    MESSAGE("skipped: the pictures were drawn with DejaVu Sans and Dear ImGui 1.86");
    return;
  }
  const auto pictures = viz::load_pictures(KV_SOURCE_DIR "/viz/shell/pictures.txt");
  for (const viz::Picture& picture : pictures) {
    if (picture.is_svg()) continue;
    CAPTURE(picture.file);
    const std::string file = KV_SOURCE_DIR "/docs/figures/" + picture.file;
    int width = 0, height = 0, channels = 0;
    stbi_uc* const pixels = stbi_load(file.c_str(), &width, &height, &channels, 3);
    REQUIRE(pixels != nullptr);
    REQUIRE(width == viz::Picture::kWidth);
    REQUIRE(height == viz::Picture::kHeight);
    const auto drawn = viz::draw_picture(picture, KV_SOURCE_DIR);
    const std::vector<uint8_t> kept(pixels, pixels + drawn.size());
    stbi_image_free(pixels);
    CHECK(largest_difference(drawn, kept) <= kTolerance);  // ./course pictures draws them again
  }
}

TEST_CASE_FIXTURE(SmallFixture, "the last bits of a vertex do not show in a picture") {
  std::vector<uint8_t> last = ui.picture();
  for (const char* name :
       {"06_prefix_hashing/scenarios/chain.txt", "02_flat_cache/scenarios/waste.txt"}) {
    viz::Scenario scenario = viz::Scenario::load(std::string(KV_SOURCE_DIR "/lessons/") + name);
    shell.select(scenario.page);
    shell.session().load(std::move(scenario));
    shell.session().play_on();
    ui.frame();
    const auto before = ui.picture();
    CHECK(before != last);
    last = before;
    shake_vertices(kShake);
    CHECK(largest_difference(ui.picture(), before) <= kTolerance);
  }
}

TEST_CASE("the program plays a scenario and says what does not hold") {
  const auto played = kvtest::shell(
      "$B/viz --headless --script $S/lessons/05_refcount_cow/scenarios/beam_search.txt "
      "--screenshot $T/x.png --svg $T/x.svg && test -s $T/x.svg && wc -c <$T/x.png");
  CHECK(played.code == 0);
  CHECK(played.out.find("END total=10 free=") != std::string::npos);
  CHECK(std::stoi(played.out.substr(played.out.find('\n'))) > 10'000);
  const std::pair<const char*, const char*> wrong[] = {
      {"page 05\nnew A\nexpect used 9\n", "line 3: expected used = 9, found 0"},
      {"page 05\nfly\n", "fly"},
      {"page 77\n", "there is no page 77"},
      {"", "an empty scenario"},
      {"page 05\nsay \"open\n", "line 2"},
      {"page 05\nresize 0 16\n", "found 0"},
      {"page 05\nresize 64 -1\n", "found -1"},
      {"page 05\nresize 2147483648 16\n", "found 2147483648"}};
  for (const auto& one : wrong) {
    const auto& [script, what] = one;
    CAPTURE(one.first);
    kvtest::check_refused(kvtest::shell("$B/viz --headless --script $T/stdin", script), what);
  }
}

TEST_CASE("wrong options, and no display, give one clear line") {
  const std::pair<const char*, const char*> wrong[] = {
      {"--headless --frame-time --size 0x0", "--size"},
      {"--frame-time --headless --size wide", "--size"},
      {"--commands", "of which page?"},
      {"--headless --screenshot $T/x.png --scale 9", "--scale"},
      {"--headless --screenshot /dev/full", "/dev/full: cannot write the picture: No space"},
      {"--headless --screenshot /none/x.png", "/none/x.png"},
      {"77 --headless", "there is no page 77"},
      {"--headless --script /none.txt", "/none.txt"},
      {"--headless --trace /none.json", "/none.json"},
      {"--headless --trace $S/README.md", "README.md: not valid JSON"},
      {"--headless --trace strided --script /none.txt", "wanted with a page of its own"},
      {"5 --headless --trace strided", "wanted with a page of its own"},
      {"5 --headless --script $S/lessons/06_prefix_hashing/scenarios/chain.txt",
       "a scenario of page 06, wanted one of page 05"},
      {"--frames 1", "--headless"},
      {"--pictures $T --theme light", "leave --theme out"},
      {"5 --pictures=$T", "leave --pictures out"},
      {"--pictures $T --do 'new A'", "leave --pictures out"},
      {"--headless --check-layout --frame-time", "leave --frame-time out"},
      {"--headless --at 0.5 --screenshot $T/x.png", "leave --at out"},
      {"5 --steps 3", "--steps: found where it does nothing, wanted with --script, and"},
      {"5 --headless --steps 3", "leave --steps out"},
      {"5 --headless --theme light", "wanted with a window or --screenshot"}};
  for (const auto& one : wrong) {
    const auto& [options, what] = one;
    CAPTURE(one.first);
    kvtest::check_refused(
        kvtest::shell(std::string("unset DISPLAY WAYLAND_DISPLAY; $B/viz ") + options), what);
  }
}
