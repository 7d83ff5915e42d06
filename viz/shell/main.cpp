// The visualizer: a page for each lesson, one about a warp and one about a server's cache, in a
// window or, for scripts and pictures, without one.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <tuple>
#include <utility>

#include "common/console.h"
#include "common/error.h"
#include "programs/generate.h"
#include "viz/drawing/layout.h"
#include "viz/pages.h"
#include "viz/shell/files.h"
#include "viz/shell/headless.h"
#include "viz/shell/pictures.h"
#include "viz/shell/shell.h"
#if KV_VIZ_WINDOW
#include "viz/shell/window.h"
#endif

namespace {

struct Options {
  kv::GenerateOptions model;
  std::string page;
  std::string script;
  std::string trace;
  std::string first;
  std::string screenshot;
  std::string pictures;
  std::string svg;
  std::string animate;
  std::string size;
  std::string theme = "system";
  double scale = 0;
  double at = 1;  // a part of the last motion
  int steps = 0;
  int frames = 0;
  bool headless = false;
  bool rects = false;
  bool commands = false;
  bool frame_time = false;
  bool no_motion = false;
  bool check_layout = false;
};

viz::PageContext context_of(const Options& options) {
  return {.model_dir = options.model.model_dir,
          .device = options.model.device,
          .kernel = kv::kernel_of(options.model),
          .seed = options.model.sampling.seed};
}

viz::Shell make_shell(const Options& options) {
  viz::Shell shell([context = context_of(options)] { return viz::make_pages(context); },
                   viz::load_shipped(KV_SOURCE_DIR), viz::on_disk());
  shell.motion = !options.no_motion;
  shell.light = options.theme == "light";
  return shell;
}

constexpr int64_t kMaxPixels = int64_t{8192} * 8192;  // of a picture

void parse_size(const std::string& text, int& width, int& height) {
  char rest = 0;
  const int found = std::sscanf(text.c_str(), "%dx%d%c", &width, &height, &rest);
  if (found != 2 || width < 320 || height < 240 || width > 8192 || height > 8192) {
    kv::user_error("--size: found {}, wanted WIDTHxHEIGHT from 320x240 to 8192x8192", text);
  }
}

/// On the page that was asked for, or on the scenario's own.
void load_script(const Options& options, viz::Shell& shell) {
  viz::Scenario scenario = viz::Scenario::load(options.script);
  const std::string& page = std::as_const(shell.session()).page().info().lesson;
  if (!options.page.empty() && scenario.page != page) {
    kv::user_error(
        "{}: a scenario of page {}, wanted one of page {}; without the \"{}\" its page opens",
        options.script, scenario.page, page, options.page);
  }
  shell.load(std::move(scenario));
}

/// Plays `steps` steps of the script. A line that fails is an error with its number.
void play(viz::Session& session, const std::string& file, size_t steps) {
  try {
    session.play_on(steps);
  } catch (const kv::UserError& error) {
    kv::user_error("{}: {}", file, error.what());
  }
}

/// Measures the picture after every step of the scenario.
void check_layout(viz::Session& session, const std::string& file) {
  size_t faults = 0;
  for (int step = 0;; ++step) {
    for (const std::string& fault : viz::layout_faults(session.page())) {
      fmt::print("step {} {}\n", step, fault);
      ++faults;
    }
    if (session.at_end()) break;
    session.play_on(1);
  }
  if (faults > 0) kv::user_error("{}: {} faults in its pictures", file, faults);
}

void print_state(const viz::Page& page) {
  fmt::print("END");
  for (const auto& one : page.counters()) fmt::print(" {}={}", one.name, one.value);
  fmt::print("\n");
}

/// Prints the commands that a scenario of the page can use.
void print_commands(const viz::Page& page) {
  constexpr size_t kColumn = 32;
  const kv::Console console;
  for (const auto& [command, help] : page.help()) {
    const bool fits = command.size() + 2 <= kColumn;
    console.print("{:<{}}{}{:{}}{}\n", command, fits ? kColumn : 0, fits ? "" : "\n", "",
                  fits ? 0 : kColumn, help);
  }
  console.print("{:<{}}{}\n", "expect reads", kColumn, fmt::join(page.counter_names(), " "));
}

/// With a command, and what the page does of itself after it.
void begin(viz::Shell& shell, const std::string& line) {
  viz::Session& session = shell.session();
  const viz::Command command = viz::parse_command(line);
  if (const std::string other = shell.other_page_with(command.verb); !other.empty()) {
    kv::user_error("{}: page {} has no such command, page {} has it: ./course viz {} --do '{}'",
                   command.verb, session.page().info().lesson, other, other, line);
  }
  session.run(command);
  session.playing = session.can_step();
}

void draw(const Options& options, viz::Shell& shell, int width, int height, float scale) {
  viz::Headless headless(shell, width, height, scale);
  if (options.at < 1) {
    shell.hold(static_cast<float>(options.at));
    play(shell.session(), options.script, 1);
  }
  headless.frame();
  if (options.frame_time) {
    constexpr int kFrames = 100;
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kFrames; ++i) headless.frame();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    fmt::print("{:.2f} ms a frame\n", taken.count() * 1e3 / kFrames);
  }
  if (options.screenshot.empty()) return;
  viz::write_png(options.screenshot, headless.picture(), width, height);
}

void run_headless(const Options& options, viz::Shell& shell, int width, int height) {
  if (options.check_layout) return check_layout(shell.session(), options.script);
  const auto scale = static_cast<float>(options.scale > 0 ? options.scale : 1);
  const auto pixels = [&](int points) {
    return static_cast<int>(static_cast<float>(points) * scale);
  };
  if (int64_t{pixels(width)} * pixels(height) > kMaxPixels) {
    kv::user_error("--size {}x{} at --scale {:g}: {} x {} pixels, wanted at most {} in all", width,
                   height, scale, pixels(width), pixels(height), kMaxPixels);
  }
  if (!options.script.empty()) {
    viz::Session& session = shell.session();
    const size_t wanted = options.steps > 0 ? static_cast<size_t>(options.steps) : SIZE_MAX;
    const size_t steps = std::min(wanted, session.num_steps());
    play(session, options.script, options.at < 1 ? std::max<size_t>(steps, 1) - 1 : steps);
  }
  if (!options.screenshot.empty() || options.frame_time) {
    draw(options, shell, pixels(width), pixels(height), scale);
  }
  print_state(shell.session().page());
}

/// The pictures of the lesson texts.
void draw_pictures(const std::filesystem::path& folder) {
  for (const viz::Picture& picture : viz::load_pictures(KV_SOURCE_DIR "/viz/shell/pictures.txt")) {
    if (picture.is_svg()) {
      viz::write_text(folder / picture.file, viz::draw_svg(picture, KV_SOURCE_DIR));
    } else {
      const auto rgb = viz::draw_picture(picture, KV_SOURCE_DIR);
      viz::write_png(folder / picture.file, rgb, viz::Picture::kWidth, viz::Picture::kHeight);
    }
    fmt::print("{}\n", (folder / picture.file).string());
  }
}

/// The scenes of a script as SVG, without the window around them.
void write_svg(const Options& options, const std::string& file, bool plays) {
  if (options.script.empty()) kv::user_error("--svg and --animate draw scenes of a --script");
  int width = 860, height = 420;
  if (!options.size.empty()) parse_size(options.size, width, height);
  viz::write_text(file,
                  viz::draw_svg(context_of(options), viz::Scenario::load(options.script),
                                {.file = file,
                                 .scenario = options.script,
                                 .steps = static_cast<size_t>(options.steps),
                                 .plays = plays,
                                 .room = {static_cast<float>(width), static_cast<float>(height)}}));
}

/// Refuses what was given and would do nothing.
void refuse_unused(const Options& options) {
  const bool pictures = !options.pictures.empty();
  const bool svg = !(options.svg + options.animate).empty();
  const bool window = !options.headless && !svg && !pictures;
  const bool png = !options.screenshot.empty() || options.frame_time;
  const bool seen = window || png;
  const bool own = (options.page + options.script).empty();
  const bool plays = !options.script.empty() && !window && !options.check_layout;
  const bool others = options.headless || svg || !own || options.commands ||
                      !(options.trace + options.first).empty();
  const std::tuple<const char*, bool, const char*> unused[] = {
      {"--pictures", pictures && others, "no page, script or picture of its own"},
      {"--steps", options.steps > 0 && !plays, "--script, and --headless, --svg or --animate"},
      {"--at", options.at < 1 && !(png && plays), "--script and --screenshot"},
      {"--theme", options.theme != "system" && !seen, "a window or --screenshot"},
      {"--scale", options.scale != 0 && !seen, "a window or --screenshot"},
      {"--size", !options.size.empty() && !seen && !svg, "a window, --screenshot or --svg"},
      {options.frame_time ? "--frame-time" : "--screenshot", png && options.check_layout,
       "no --check-layout"},
      {"--trace", !options.trace.empty() && !own, "a page of its own, so no page and no --script"},
      {"--frames", options.frames > 0 && !window, "a window"},
      {"--rects", options.rects && !window, "a window"}};
  for (const auto& [name, found, wanted] : unused) {
    if (!found) continue;
    kv::user_error("{0}: found where it does nothing, wanted with {1}; or leave {0} out", name,
                   wanted);
  }
}

void run(const Options& options) {
  refuse_unused(options);
  if (!options.pictures.empty()) return draw_pictures(options.pictures);
  if (!options.svg.empty()) write_svg(options, options.svg, false);
  if (!options.animate.empty()) write_svg(options, options.animate, true);
  if (!(options.svg + options.animate).empty() && options.screenshot.empty()) return;
  int width = 0, height = 0;
  parse_size(options.size.empty() ? "1440x900" : options.size, width, height);
  if (options.scale != 0 && !(options.scale >= 0.5 && options.scale <= 4)) {
    kv::user_error("--scale: found {}, wanted 0.5 to 4, or 0 for the display's", options.scale);
  }
  viz::Shell shell = make_shell(options);
  // "7" is lesson 07's.
  if (!options.page.empty()) shell.select((options.page.size() == 1 ? "0" : "") + options.page);
  if (!options.script.empty()) load_script(options, shell);
  if (!options.trace.empty()) {
    shell.select("warp");
    shell.session().run({.verb = "open", .args = {options.trace}});
  }
  if (!options.first.empty()) begin(shell, options.first);
  if (options.commands) {
    if ((options.page + options.script + options.trace).empty()) {
      kv::user_error("--commands: of which page? wanted one, as in ./course viz 5 --commands");
    }
    return print_commands(shell.session().page());
  }
  if (options.headless) return run_headless(options, shell, width, height);
#if KV_VIZ_WINDOW
  if (options.theme == "system") shell.light = viz::is_desktop_light();
  viz::run_window(shell, {.width = width,
                          .height = height,
                          .scale = static_cast<float>(options.scale),
                          .frames = options.frames,
                          .rects = options.rects});
  print_state(shell.session().page());
#else
  kv::user_error(
      "built without GLFW and OpenGL: only --headless works; install libglfw3-dev and "
      "libgl-dev and build again");
#endif
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  kv::CommandLine command(
      "The visualizer: a page for each lesson, driven by the lesson's own classes.",
      "./course viz");
  kv::add_model_options(command, options.model);
  command.value("page N|NAME", options.page, "the page to open: a lesson's, warp or watch");
  command.value("--script FILE", options.script,
                "load a scenario; with --headless, play it to its end");
  command.value("--trace FILE", options.trace,
                "show what a warp's loads and stores want: a recording, as tools/warp_trace.py "
                "makes it, or the name of one that ships");
  command.value("--do COMMAND", options.first,
                "begin with a command of the page (--commands), and let the page go on from there");
  command.flag("--headless", options.headless, "no window: play the script and check it");
  command
      .value("--steps N", options.steps,
             "play N steps of the script, with --headless, --svg or --animate; 0: all of them")
      .between(0, 1 << 20);
  command.value("--at T", options.at, "stop at this part of the last motion, 0 to 1")
      .real_between(0, 1)
      .needs("--headless");
  command.value("--theme NAME", options.theme, "the window's colours: dark, light, or the system's")
      .one_of({"dark", "light", "system"});
  command.flag("--no-motion", options.no_motion, "change the picture at once");
  command.value("--screenshot FILE", options.screenshot, "draw the last moment as PNG")
      .output_file()
      .needs("--headless");
  command.value("--pictures DIR", options.pictures,
                "draw the pictures of the lesson texts into a folder, and nothing else");
  command.value("--svg FILE", options.svg, "draw the last scene of the script as SVG");
  command.value("--animate FILE", options.animate, "draw all its scenes as an animated SVG");
  command.value("--size WxH", options.size,
                "of the window (1440x900), or of an SVG's scene (860x420), in points");
  command.value("--scale X", options.scale, "pixels per point, 0.5 to 4; 0: the display's")
      .real_between(0, 4);
  kv::add_seed_option(command, options.model, "of live runs");
  command.value("--frames N", options.frames, "close the window after N frames; 0: never")
      .between(0, 1 << 30);
  command.flag("--rects", options.rects, "print where the controls are, for scripts that click");
  command.flag("--commands", options.commands, "list what a scenario of the page can say");
  command
      .flag("--check-layout", options.check_layout,
            "with --script: measure the picture after every step")
      .needs("--headless");
  command.flag("--frame-time", options.frame_time, "time of laying out a frame")
      .needs("--headless");
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
