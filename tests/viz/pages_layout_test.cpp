// Every picture of every scenario, measured: nothing is cut, overlaps or is too small to read, and
// nothing in the window has to be scrolled.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "tests/support/temp_dir.h"
#include "tests/viz/example_page.h"
#include "tests/viz/told_blocks.h"
#include "viz/drawing/layout.h"
#include "viz/drawing/side_scenes.h"
#include "viz/drawing/window_layout.h"
#include "viz/pages.h"
#include "viz/shell/files.h"
#include "viz/shell/headless.h"
#include "viz/shell/shell.h"

namespace {

std::vector<std::unique_ptr<viz::Page>> make_pages() {
  return viz::make_pages({.model_dir = KV_SOURCE_DIR "/models/tiny", .device = "cpu"});
}

/// The same shell in windows of these sizes.
struct Windows {
  explicit Windows(viz::Shell& shell) {
    const std::tuple<int, int, float> sizes[] = {
        {1024, 640, 1}, {1280, 800, 1}, {1920, 1080, 1}, {2560, 1440, 1}, {2048, 1280, 2}};
    for (const auto& [w, h, scale] : sizes) {
      all.push_back(std::make_unique<viz::Headless>(shell, w, h, scale));
      names.push_back(std::to_string(w) + "x" + std::to_string(h));
    }
  }
  void check() const {
    for (size_t i = 0; i < all.size(); ++i) {
      CAPTURE(names[i]);
      all[i]->frame();
      all[i]->frame();  // what scrolls is known after one frame
      for (const std::string& fault : all[i]->crowded()) FAIL_CHECK(fault);
    }
  }
  std::vector<std::unique_ptr<viz::Headless>> all;
  std::vector<std::string> names;
};

/// Calls check(ui, its width) with each page open in a window of each size.
template <class Check>
void check_pages(viz::Shell& shell, const std::vector<std::pair<int, int>>& sizes,
                 const Check& check) {
  for (const auto& page : make_pages()) {
    CAPTURE(page->info().lesson);
    shell.select(page->info().lesson);
    for (const auto& size : sizes) {
      CAPTURE(size.first);
      CAPTURE(size.second);
      viz::Headless ui(shell, size.first, size.second, 1);
      ui.frame();
      check(ui, size.first);
    }
  }
}

}  // namespace

TEST_CASE("every picture can be read, in windows of all sizes, and every sentence counts right") {
  viz::Shell shell(make_pages, viz::load_shipped(KV_SOURCE_DIR));
  const Windows windows(shell);
  std::map<std::string, int> told;  // sentences that count blocks, by page
  for (const viz::Scenario& scenario : viz::load_shipped(KV_SOURCE_DIR)) {
    CAPTURE(scenario.page);
    CAPTURE(scenario.name);
    shell.load(scenario);
    viz::Session& session = shell.session();
    for (const std::string& fault : viz::layout_faults(session.page())) FAIL_CHECK(fault);
    while (!session.at_end()) {
      const kvtest::Counts before = kvtest::counts_of(session.page());
      session.play_on(1);
      CAPTURE(session.steps_done());
      for (const std::string& fault : viz::layout_faults(session.page())) FAIL_CHECK(fault);
      told[scenario.page] +=
          kvtest::check_told(kvtest::told_by(session.page(), session.log().back().text), before,
                             kvtest::counts_of(session.page()));
    }
    windows.check();
  }
  for (const char* page : {"03", "05", "07", "08", "12", "13"}) CHECK(told[page] >= 1);
}

TEST_CASE("no page opens empty, and one without its model says so") {
  for (const bool has_model : {true, false}) {
    for (auto& page : has_model ? make_pages() : viz::make_pages({.model_dir = "none"})) {
      viz::Session session(std::move(page));
      CAPTURE(session.page().info().lesson);
      const bool is_empty = session.page().scene({357, 700}).find("empty/panel") != nullptr;
      const bool failed = !session.log().empty() && session.log().back().error;
      CHECK(is_empty == failed);
      CHECK_FALSE((has_model && failed));
    }
  }
}

TEST_CASE("each button above the page can be clicked, in windows of all sizes and at all zooms" *
          doctest::test_suite("sweep")) {
  const kvtest::TempDir dir;
  viz::Shell shell(make_pages, {}, viz::on_disk(dir.path()));
  std::vector<std::string> lessons;
  for (const auto& page : make_pages()) lessons.push_back(page->info().lesson);
  for (const auto& size : {std::pair{1024, 640}, {1100, 700}, {1440, 900}, {560, 900}}) {
    const int w = size.first, h = size.second;
    for (const float zoom : {1.0f, 1.375f, 2.0f}) {
      CAPTURE(w);
      CAPTURE(zoom);
      viz::Headless ui(shell, w, h, zoom);
      for (const std::string& lesson : lessons) {
        CAPTURE(lesson);
        const auto& controls = shell.probe().controls;
        const auto tab = controls.find("tab " + lesson);
        if (tab == controls.end() || !tab->second.visible) ui.click("all tabs");
        ui.click("tab " + lesson);
        CHECK(shell.session().page().info().lesson == lesson);
        ui.frame();
        std::vector<viz::Probe::Control> row;
        for (const auto& [name, control] : controls) {
          if (control.is_button && control.y < 40 * zoom) row.push_back(control);
        }
        std::ranges::sort(row, {}, &viz::Probe::Control::x);
        for (size_t i = 0; i < row.size(); ++i) {
          CHECK(row[i].visible);
          CHECK_FALSE(row[i].cut);
          if (i > 0) CHECK(row[i - 1].x + row[i - 1].w <= row[i].x);
        }
        for (const char* name : {"open", "help"}) {
          if (lesson == "warp" && name[0] == 'o') continue;  // a button of this page has that name
          ui.click(name);
          for (const std::string& fault : ui.outside()) FAIL_CHECK(fault);
          ui.click(name);
        }
      }
    }
  }
}

TEST_CASE("on a phone held upright one scroll reaches all controls") {
  viz::Shell shell(make_pages, viz::load_shipped(KV_SOURCE_DIR));
  bool shows_more = false;
  check_pages(shell, {{390, 812}, {390, 632}, {360, 560}}, [&](viz::Headless& ui, int) {
    const auto& controls = shell.probe().controls;
    ui.click("down");
    ui.frame();
    if (controls.contains("more") && !shows_more) ui.click("more");
    shows_more |= controls.contains("more");
    std::set<std::string> seen;
    for (int i = 0; i < 100; ++i) {
      for (const auto& [name, control] : controls) {
        if (control.visible) seen.insert(name);
      }
      shell.pan(i == 0 ? 9999.0f : -50);
      ui.frame();
    }
    for (const auto& one : controls) {
      CAPTURE(one.first);
      const bool is_tab = one.first.starts_with("tab ");
      if (one.second.is_button && !is_tab) CHECK(seen.contains(one.first));
    }
  });
}

TEST_CASE("on a phone the beam search of page 05 goes on by hand") {
  const char* const file = KV_SOURCE_DIR "/lessons/05_refcount_cow/scenarios/beam_search.txt";
  for (const int high : {632, 812}) {
    CAPTURE(high);
    viz::Shell shell(make_pages, {});
    shell.load(viz::Scenario::load(file));
    shell.session().go_to_step(shell.session().num_steps());
    viz::Headless ui(shell, 390, high, 1);
    ui.frame();
    CHECK_FALSE(shell.probe().controls.contains("new"));  // the film has that room
    ui.click("down");
    for (const char* name : {"more", "all/append 1", "all/append 1"}) {
      ui.frame();
      ui.click(name);
    }
    CHECK(shell.session().log().back().text.starts_with("A, B, C, D grow by 1 token"));
  }
}

TEST_CASE("inside a text there is the pool, its large buttons and counters, and nothing else") {
  viz::Shell shell(make_pages, {});
  shell.embedded = true;
  std::set<std::string> pages;
  check_pages(shell, {{866, 541}, {1280, 700}, {370, 640}}, [&](viz::Headless& ui, int width) {
    const viz::Page& page = shell.session().page();
    if (page.actions().empty()) return;
    pages.insert(page.info().lesson);
    if (width >= 700) {  // on a phone a finger pans the picture
      for (const std::string& fault : ui.crowded()) FAIL_CHECK(fault);
    }
    const auto& controls = shell.probe().controls;
    for (const char* name : {"undo", "reset"}) CHECK(controls.at(name).visible);
    for (const viz::Button& action : page.actions()) {
      CAPTURE(action.name);
      CHECK(controls.at(action.name).visible);
    }
    for (const char* name : {"more", "play", "help", "type"}) CHECK_FALSE(controls.contains(name));
    if (page.info().lesson == "05") CHECK_FALSE(controls.at("block 3").cut);
  });
  CHECK(pages.size() >= 12);
}

TEST_CASE("all large buttons can be seen, in windows of all sizes, and fit a finger on phones") {
  viz::Shell shell(make_pages, {});
  const std::vector<std::pair<int, int>> sizes{{1024, 640}, {1280, 800}, {760, 340}, {844, 358},
                                               {390, 812},  {390, 632},  {360, 560}};
  check_pages(shell, sizes, [&](const viz::Headless&, int width) {
    std::vector<std::string> large{"undo", "reset"};
    for (const auto& action : shell.session().page().actions()) large.push_back(action.name);
    for (const std::string& name : large) {
      CAPTURE(name);
      const viz::Probe::Control& control = shell.probe().controls.at(name);
      CHECK(control.visible);
      CHECK_FALSE(control.cut);
      if (width < 1000) CHECK(control.h >= 44);
    }
  });
}

TEST_CASE("what is behind More has room in a window, and so have the films") {
  viz::Shell shell(make_pages, viz::load_shipped(KV_SOURCE_DIR));
  viz::Headless ui(shell, 1280, 800, 1);
  shell.select("05");
  ui.frame();
  ui.click("more");  // on all pages
  for (const auto& page : make_pages()) {
    CAPTURE(page->info().lesson);
    shell.select(page->info().lesson);
    for (int i = 0; i < 3; ++i) ui.frame();
    for (const std::string& fault : ui.crowded()) FAIL_CHECK(fault);
  }
}

TEST_CASE("the films of every page, its counters and its sentences can be read") {
  const std::pair<float, float> sizes[] = {{360, 640},  {390, 844},   {560, 900},
                                           {760, 340},  {844, 358},   {1024, 640},
                                           {1280, 800}, {1920, 1080}, {2560, 1440}};
  const std::vector<viz::Scenario> scenarios = viz::load_shipped(KV_SOURCE_DIR);
  for (const auto& page : make_pages()) {
    CAPTURE(page->info().lesson);
    std::vector<viz::Scenario> own = scenarios;
    std::erase_if(own, [&](const auto& one) { return one.page != page->info().lesson; });
    CHECK_FALSE(own.empty());
    for (const auto& size : sizes) {
      const auto& [w, h] = size;
      CAPTURE(size.first);
      const viz::WindowLayout layout = viz::window_layout(w, h);
      const float side = layout.side.w - 2 * viz::kSidePad;
      std::vector<viz::Scene> scenes{viz::figures_of(*page, viz::figures_room(side, *page))};
      const auto count = static_cast<float>(own.size());
      scenes.push_back(layout.on_phone ? viz::films_of(own, {side, 40 * count}, true)
                                       : viz::films_of(own, {w - 290, layout.player.h}, false));
      for (const viz::Scenario& scenario : own) {
        for (const viz::Command& command : scenario.commands) {
          if (command.verb != "say") continue;
          scenes.push_back(viz::sentence_of(command.args.at(0), viz::Ink::kText,
                                            {layout.sentence.w, layout.sentence.h}));
        }
      }
      for (const viz::Scene& scene : scenes) {
        for (const std::string& fault : viz::layout_faults(scene)) FAIL_CHECK(fault);
      }
    }
  }
}

TEST_CASE("on a phone the counters of page 05 do not touch after a fork") {
  viz::Shell shell(make_pages, {});
  shell.select("05");
  shell.session().run(viz::parse_command("fork A B"));
  const viz::Page& page = shell.session().page();
  const viz::Scene scene = viz::figures_of(page, viz::figures_room(370, page));
  REQUIRE(scene.find("counters/saved") != nullptr);
  for (const viz::Shape& shape : scene.shapes()) {
    if (shape.kind != viz::Shape::Kind::kText) continue;
    CAPTURE(shape.id);
    CHECK(viz::text_width(shape.text, shape.size) <= shape.at.w);
  }
}

TEST_CASE("the edge of a box that ends with the picture is drawn whole") {
  struct EdgePage : kvtest::CountingPage {
    viz::Scene scene(const viz::Room& room) override {
      viz::Scene scene(room);
      scene.box("all", {0, 0, room.w, room.h}, {}, viz::paint(viz::Ink::kText)).thickness = 4;
      return scene;
    }
  };
  viz::Shell shell(kvtest::pages_of<EdgePage>, {});
  viz::Headless ui(shell, 1280, 800, 1);
  ui.frame();
  const viz::Place main = viz::window_layout(1280, 800).main;
  const std::vector<uint8_t> picture = ui.picture();
  const auto pixel = [&](float x) {
    const size_t at = 3 * (1280 * size_t{400} + static_cast<size_t>(x));
    return std::vector<uint8_t>(&picture[at], &picture[at + 3]);
  };
  CHECK(pixel(main.x) != pixel(main.x + 20));
  CHECK(pixel(main.x - 1) == pixel(main.x));
  CHECK(pixel(main.right()) == pixel(main.right() - 1));
}
