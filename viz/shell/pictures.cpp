#include "viz/shell/pictures.h"

#include <algorithm>
#include <fstream>
#include <utility>

#include "common/error.h"
#include "viz/drawing/scene_svg.h"
#include "viz/names.h"
#include "viz/pages.h"
#include "viz/shell/files.h"
#include "viz/shell/headless.h"
#include "viz/shell/session.h"

namespace viz {

namespace {

constexpr int kMostSide = 4096;  // points

PageContext context_of(const std::filesystem::path& project) {
  return {.model_dir = project / "models" / "tiny", .device = "cpu", .seed = 0};
}

/// "STEPS", "play", "play:STEPS" or "play:FROM-STEPS"; these with "@STEP" after them.
void read_steps(Picture& picture, const Command& line) {
  Command steps{.verb = line.verb, .args = {line.word(1, "steps")}, .line = line.line};
  std::string& text = steps.args[0];
  if (const size_t at = text.find('@'); at != std::string::npos) {
    const Command still{.verb = line.verb, .args = {text.substr(at + 1)}, .line = line.line};
    picture.still = static_cast<size_t>(still.number(0, "a step", 1, 1 << 20));
    text.resize(at);
  }
  picture.plays = text == "play" || text.starts_with("play:");
  if (picture.plays) text = text == "play" ? "0" : text.substr(5);
  if (const size_t at = text.find('-'); picture.plays && at != std::string::npos) {
    const Command from{.verb = line.verb, .args = {text.substr(0, at)}, .line = line.line};
    picture.from = static_cast<size_t>(from.number(0, "a step", 1, 1 << 20));
    text.erase(0, at + 1);
  }
  picture.steps = static_cast<size_t>(steps.number(0, "steps", 0, 1 << 20));
}

/// "860x420"
void read_room(Picture& picture, const Command& line) {
  const std::string& text = line.word(2, "a size");
  const size_t by = std::min(text.find('x'), text.size());
  const Command sides{.verb = line.verb,
                      .args = {text.substr(0, by), text.substr(std::min(by + 1, text.size()))},
                      .line = line.line};
  picture.room = {static_cast<float>(sides.number(0, "a width", 100, kMostSide)),
                  static_cast<float>(sides.number(1, "a height", 100, kMostSide))};
}

}  // namespace

std::vector<Picture> load_pictures(const std::filesystem::path& list) {
  std::ifstream in(list);
  if (!in) kv::user_error("{}: cannot read the list of pictures", list.string());
  std::vector<Picture> pictures;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    const Command command = parse_command(line, ++number);
    if (command.verb.empty()) continue;
    command.check_count(2, 3);
    Picture& picture = pictures.emplace_back();
    picture.file = command.verb;
    picture.scenario = command.word(0, "a scenario");
    read_steps(picture, command);
    if (command.args.size() > 2) read_room(picture, command);
    if (picture.plays && !picture.is_svg()) {
      kv::user_error("{}{} cannot play: wanted an .svg", command.place(), picture.file);
    }
  }
  return pictures;
}

std::vector<uint8_t> draw_picture(const Picture& picture, const std::filesystem::path& project) {
  Shell shell([&] { return make_pages(context_of(project)); }, load_shipped(project), on_disk());
  shell.load(Scenario::load(project / picture.scenario));
  shell.session().play_on(picture.steps > 0 ? picture.steps : SIZE_MAX);
  Headless headless(shell, Picture::kWidth, Picture::kHeight, 1);
  headless.frame();
  return headless.picture();
}

Session session_of(const PageContext& context, Scenario scenario) {
  std::vector<std::unique_ptr<Page>> pages = make_pages(context);
  const auto page = std::ranges::find_if(
      pages, [&](const auto& one) { return one->info().lesson == scenario.page; });
  if (page == pages.end()) {
    kv::user_error("{}: there is no page {}", scenario.name, scenario.page);
  }
  Session session(std::move(*page));
  session.load(std::move(scenario));
  return session;
}

std::vector<Frame> frames_of(Session& session, const Picture& picture, size_t steps,
                             size_t& still) {
  still = SIZE_MAX;
  const Room room{picture.room.w, picture.room.h, true};
  std::vector<Frame> frames(1);
  frames[0].scene = session.page().scene(room);
  frames[0].hold = 0.6f;
  for (size_t i = 0; i < steps && !session.at_end(); ++i) {
    const size_t before = session.position();
    session.play_on(1);
    Frame& frame = frames.emplace_back();
    frame.scene = session.page().scene(room);
    frame.caption = session.caption();
    frame.motion = 1.2f * frame.scene.seconds();
    frame.hold = 0.3f;
    if (session.position() == before) break;
    if (i + 1 < picture.from) {  // set-up
      frames.erase(frames.begin(), frames.end() - 1);
    }
    if (i + 1 == picture.still) still = frames.size() - 1;
  }
  if (frames.size() > 1) frames.front().caption = frames[1].caption;
  float shown = 0;  // for how long the caption stands; it is read while its steps are done
  for (size_t i = 1; i < frames.size(); ++i) {
    shown += frames[i].motion + frames[i].hold;
    if (i + 1 < frames.size() && frames[i + 1].caption == frames[i].caption) continue;
    // It comes again: a moment less than in the window.
    const float read = static_cast<float>(seconds_to_read(frames[i].caption)) - 0.5f;
    frames[i].hold += std::max(0.3f, read - shown);
    shown = 0;
  }
  frames.back().hold += 1;
  return frames;
}

std::string draw_svg(const PageContext& context, Scenario scenario, const Picture& picture) {
  const std::string name = scenario.name;
  Session session = session_of(context, std::move(scenario));
  const std::string title = session.page().info().title + ": " + name;
  const size_t most = picture.steps > 0 ? picture.steps : SIZE_MAX;
  if (picture.plays) {
    size_t still = 0;
    const std::vector<Frame> frames = frames_of(session, picture, most, still);
    return svg_animation(frames, title, still);
  }
  session.play_on(most);
  return svg_still(session.page().scene(picture.room), title);
}

std::string draw_svg(const Picture& picture, const std::filesystem::path& project) {
  return draw_svg(context_of(project), Scenario::load(project / picture.scenario), picture);
}

void write_text(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary);
  out << text;
  out.close();
  if (!out)
    kv::user_error("{}: cannot write {} bytes; name a folder that you can write to", file.string(),
                   text.size());
}

}  // namespace viz
