// Scenarios, and the pictures of the texts that come from them: captions that hold at each moment,
// pictures drawn as they are kept, in real colours.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <stb_image.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/shell.h"
#include "viz/drawing/film.h"
#include "viz/drawing/layout.h"
#include "viz/drawing/motion.h"
#include "viz/pages.h"
#include "viz/shell/pictures.h"
#include "viz/shell/session.h"

TEST_CASE("the scenes of the texts are drawn byte for byte as they are kept") {
  for (const viz::Picture& picture : viz::load_pictures(KV_SOURCE_DIR "/viz/shell/pictures.txt")) {
    if (!picture.is_svg()) continue;
    CAPTURE(picture.file);
    const std::string kept = kvtest::text_of(KV_SOURCE_DIR "/docs/figures/" + picture.file);
    CHECK(kept.size() <= 200'000);
    CHECK(viz::draw_svg(picture, KV_SOURCE_DIR) == kept);  // ./course pictures draws them again
  }
}

namespace {

bool is_in(const viz::Scene& scene, const std::string& name) {
  return std::ranges::any_of(scene.shapes(), [&](const viz::Shape& shape) {
    const std::string text = " " + shape.text + " ";
    return text.find(" " + name + " ") != std::string::npos || shape.id == "request " + name;
  });
}

/// "B and D end" has "B" and "D". The word "A" may be no name.
std::vector<std::string> names_in(std::string words) {
  for (char& c : words) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : ' ';
  std::istringstream in(words);
  std::vector<std::string> names;
  for (std::string word; in >> word;) {
    if (word.size() == 1 && word[0] >= 'B' && word[0] <= 'H') names.push_back(word);
  }
  return names;
}

/// Checks one step: it has one sentence at most, because only the last one is seen after it, and it
/// says what must hold.
void check_step(std::span<const viz::Command> commands) {
  const auto count = [&](const char* verb) {
    return std::ranges::count(commands, verb, &viz::Command::verb);
  };
  CHECK(count("say") <= 1);
  CHECK(count("expect") + count("fails") >= 1);
}

/// Checks a caption that stands for several steps. A counter that a later step expects for the
/// first time must have that value already: else the caption tells of what is to come.
void check_caption(viz::Session& session) {
  const std::vector<viz::Command>& all = session.scenario()->commands;
  const size_t here = session.position();
  size_t i = here;
  while (i > 0 && all[i - 1].verb != "say") --i;
  std::set<std::string> counters;
  for (; i < all.size() && all[i].verb != "say"; ++i) {
    if (all[i].verb != "expect" || !counters.insert(all[i].args[0]).second || i < here) continue;
    CHECK_NOTHROW(session.run(all[i]));
  }
}

/// Checks that numbers over 999 have commas.
void check_numbers(const viz::Session& session) {
  static const std::regex kLong("(^|[^0-9a-zA-Z])[0-9]{4,}($|[^0-9a-zA-Z])");
  for (const std::string& text : {session.caption(), session.log().back().text}) {
    CAPTURE(text);
    CHECK_FALSE(std::regex_search(text, kLong));
  }
}

/// Whether something begins to move within 1.5 seconds of a sentence that stands alone for 0.8.
bool moves_soon(const viz::Scene& before, const viz::Scene& now) {
  return std::ranges::any_of(viz::tracks(before, now), [&](const viz::Track& track) {
    const auto &was = track.first, &is = track.last;
    const bool stays = track.sight == viz::Sight::kStays && was.at == is.at &&
                       was.fill == is.fill && was.edge == is.edge;
    return !stays && track.when().begin * now.seconds() < 0.7f;
  });
}

std::vector<viz::Picture> films() {
  auto pictures = viz::load_pictures(KV_SOURCE_DIR "/viz/shell/pictures.txt");
  std::erase_if(pictures, [](const viz::Picture& picture) { return !picture.plays; });
  return pictures;
}

viz::Session session_of(viz::Scenario scenario) {
  return viz::session_of({.model_dir = KV_SOURCE_DIR "/models/tiny", .device = "cpu"},
                         std::move(scenario));
}
viz::Session session_of(const viz::Picture& film) {
  return session_of(viz::Scenario::load(KV_SOURCE_DIR / film.scenario));
}

}  // namespace

TEST_CASE("every scenario holds, and so does each caption, of two steps at most, after each") {
  const auto files = viz::shipped_scenarios(KV_SOURCE_DIR);
  CHECK(files.size() >= 50);
  constexpr viz::Room kRoom{860, 560, true};
  for (const auto& file : files) {
    CAPTURE(file.string());
    viz::Session session = session_of(viz::Scenario::load(file));
    viz::Scene before = session.page().scene(kRoom);
    std::string last_verb, caption;
    int steps = 0;
    while (!session.at_end()) {
      last_verb = session.next_verb();
      const size_t from = session.position();
      REQUIRE_NOTHROW(session.play_on(1));  // compares the counters with what is expected
      CAPTURE(session.caption());
      CAPTURE(session.log().back().text);
      const bool is_told = !session.caption().empty();
      CHECK(is_told);
      const std::vector<viz::Command>& all = session.scenario()->commands;
      check_step(std::span(all).subspan(from, session.position() - from));
      check_numbers(session);
      check_caption(session);
      viz::Scene now = session.page().scene(kRoom);
      for (const std::string& name : names_in(session.caption())) {
        CAPTURE(name);
        CHECK((is_in(before, name) || is_in(now, name)));
      }
      steps = session.caption() == caption ? steps + 1 : 1;
      CHECK(steps <= 2);
      if (steps == 1) CHECK(moves_soon(before, now));
      caption = session.caption();
      before = std::move(now);
    }
    CHECK(last_verb != "fails");
  }
}

TEST_CASE("each moment of a film, and each picture that stands still, can be read") {
  for (const viz::Picture& picture : viz::load_pictures(KV_SOURCE_DIR "/viz/shell/pictures.txt")) {
    if (!picture.is_svg()) continue;
    CAPTURE(picture.file);
    viz::Session session = session_of(picture);
    const size_t steps = picture.steps > 0 ? picture.steps : session.num_steps();
    CHECK(picture.still <= steps);
    for (size_t step = 1; step <= steps; ++step) {
      CAPTURE(step);
      session.play_on(1);
      if (!picture.plays && step < steps) continue;
      for (const std::string& fault : viz::layout_faults(session.page().scene(picture.room))) {
        FAIL_CHECK(fault);
      }
    }
  }
}

TEST_CASE("a film is over in 20 seconds, and says where it stands still") {
  for (const viz::Picture& picture : films()) {
    CAPTURE(picture.file);
    viz::Session session = session_of(picture);
    size_t still = 0;
    const size_t steps = picture.steps > 0 ? picture.steps : SIZE_MAX;
    const std::vector<viz::Frame> frames = viz::frames_of(session, picture, steps, still);
    CHECK(viz::Film(frames).seconds() <= 20.1f);
    CHECK(still < frames.size());
  }
}

TEST_CASE("pictures have real colours, for programs without style sheets" *
          doctest::test_suite("sweep")) {
  const bool renders = std::system("command -v rsvg-convert >/dev/null") == 0;
  const kvtest::TempDir dir;
  for (const auto& entry : std::filesystem::directory_iterator(KV_SOURCE_DIR "/docs/figures")) {
    if (entry.path().extension() != ".svg") continue;
    CAPTURE(entry.path().filename().string());
    std::string text = kvtest::text_of(entry.path());
    if (const size_t style = text.find("<style>"); style != std::string::npos) {
      text.erase(style, text.find("</style>") - style);
    }
    CHECK(text.find("var(") == std::string::npos);
    if (!renders) continue;
    const std::string png = (dir.path() / "x.png").string();
    REQUIRE(std::system(fmt::format("rsvg-convert -w 160 '{}' -o '{}'", entry.path().string(), png)
                            .c_str()) == 0);
    int width = 0, height = 0, channels = 0;
    stbi_uc* const pixels = stbi_load(png.c_str(), &width, &height, &channels, 3);
    REQUIRE(pixels != nullptr);
    int black = 0;
    for (int i = 0; i < width * height; ++i) {
      black += pixels[3 * i] + pixels[3 * i + 1] + pixels[3 * i + 2] < 90;
    }
    stbi_image_free(pixels);
    CHECK(black < width * height / 4);
  }
}
