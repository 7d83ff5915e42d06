#include "viz/shell/shell.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <map>
#include <utility>

#include "common/error.h"
#include "viz/drawing/scene_svg.h"
#include "viz/drawing/side_scenes.h"

namespace viz {

constexpr double kNextDigit = 1;  // seconds within which a second digit follows

namespace {

/// The digits that open a lesson's page: "7" for "07", "13" one after the other; else none.
std::string key_of(const std::string& lesson) {
  const int number = std::atoi(lesson.c_str());
  return number == 0 ? "" : std::to_string(number);
}

bool is_live(const Scenario& scenario) {
  return std::ranges::any_of(scenario.commands,
                             [](const Command& command) { return command.verb == "live"; });
}

}  // namespace

Shell::Shell(const PageFactory& make_pages, const std::vector<Scenario>& scenarios, Outside outside)
    : outside_(std::move(outside)) {
  open_name_ = outside_.open_first;
  for (std::unique_ptr<Page>& page : make_pages()) {
    std::vector<Scenario> films;
    for (const Scenario& scenario : scenarios) {
      if (scenario.page == page->info().lesson) films.push_back(scenario);
    }
    std::ranges::stable_sort(films, {}, [](const Scenario& one) {
      return std::pair(is_live(one), one.order > 0 ? one.order : INT_MAX);
    });
    tabs_.push_back(
        {.session = std::make_unique<Session>(std::move(page)), .films = std::move(films)});
  }
}

void Shell::select(const std::string& lesson) {
  std::string known;
  for (size_t i = 0; i < tabs_.size(); ++i) {
    const std::string& name = tabs_[i].page().info().lesson;
    known += " " + name;
    if (name == lesson) return go_to_tab(i);
  }
  kv::user_error("there is no page {}; there are{}", lesson, known);
}

std::string Shell::other_page_with(const std::string& verb) const {
  const auto has = [&](const Tab& one) {
    return std::ranges::any_of(one.page().help(), [&](const auto& command) {
      return command.first == verb || command.first.starts_with(verb + " ");
    });
  };
  const auto found = has(tabs_[current_]) ? tabs_.end() : std::ranges::find_if(tabs_, has);
  return found == tabs_.end() ? "" : found->page().info().lesson;
}

/// Shows a page. The notice of the page before goes.
void Shell::go_to_tab(size_t index) {
  if (std::exchange(current_, index) == index) return;
  notice_.clear();
  to_top_ = true;
}

bool Shell::is_busy() const {
  const Tab& here = tabs_[current_];
  return here.session->playing || here.stage.moving() || here.figures.moving() ||
         !pressed_.empty() || announces_work() || changed_ != Place{};
}

void Shell::load(Scenario scenario) {
  select(scenario.page);
  session().load(std::move(scenario));
  notice_.clear();
}

void Shell::open(const std::string& name) {
  try {
    load(outside_.open(name));
    opening_ = false;
  } catch (const kv::UserError& error) {
    notice_ = error.what();
  }
}

void Shell::keep() {
  try {
    open_name_ = outside_.keep(session().recorded("recorded"));
    notice_ = outside_.saved_to + open_name_;
  } catch (const kv::UserError& error) {
    notice_ = error.what();
  }
}

/// The picture alone, as the texts have it.
void Shell::copy() {
  const std::string svg = svg_still(tab().stage.scene(), session().page().info().title);
  if (outside_.copy) {
    notice_ = outside_.copy(svg);
  } else {
    ImGui::SetClipboardText(svg.c_str());
    notice_ = "The picture was copied, as the text of an SVG.";
  }
}

/// What the window has now. A page inside a text has a player while it plays a scenario.
Parts Shell::parts() const {
  const Session& s = *tab().session;
  const bool acts = !s.page().actions().empty(), small = embedded && acts;
  const bool film = s.scenario() != nullptr || command_line_.is_open();
  return {.tabs = !embedded,
          .actions = acts,
          .side = !small,
          .player = !small || film,
          .folded = acts && !shows_more_,
          .film = film};
}

void Shell::frame(float width, float height, float scale, double seconds) {
  session().page();  // it opens
  Parts has = parts();
  has.counters = figures_room(width / scale - 20, session().page()).h;
  const WindowLayout layout = window_layout(width / scale, height / scale, has);
  on_phone_ = layout.on_phone, upright_ = layout.upright;
  is_small_ = on_phone_ || width < kSmall * scale;
  keys();  // of the controls of the last frame
  ui_.begin_frame(scale, on_phone_ ? kFinger : 0);
  // What a step computes may take seconds: the page and its sentence are on the screen meanwhile.
  if (std::exchange(page_shown_, true) && !tab().stage.moving()) {
    const double passed = seconds * static_cast<double>(speed_);
    work(session().is_due(passed) ? session().next_verb() : "",
         [this, passed] { session().advance(passed); });
  }
  use_colours(light ? kLight : kDark);
  const bool counts_apart = layout.counters.w > 0;
  const float wide = counts_apart ? layout.counters.w : layout.side.w - 2 * kSidePad;
  Room room = picture_room(layout, session().page().info().tall);
  room.is_told = true;
  follow_page(room, figures_room(wide, session().page()), seconds);
  ImGui::SetNextWindowPos(ImVec2(0, 0));
  ImGui::SetNextWindowSize(ImVec2(width, height));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(0, 0));
  ImGui::Begin("Page by Page", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoScrollWithMouse | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoBringToFrontOnFocus);
  ImGui::PopStyleVar();
  if (layout.tabs.h > 0) draw_tabs(layout.tabs);
  if (counts_apart) draw_counters(layout.counters);
  draw_main(layout, seconds);
  if (layout.actions.h > 0) draw_actions(layout.actions, layout.player.h > 0);
  if (layout.side.h > 0 && layout.page.h == 0) draw_side(layout.side, !counts_apart);
  draw_sentence(layout.sentence);
  if (layout.player.h > 0) draw_player(layout.player);
  if (help_) draw_help();
  if (opening_) draw_open();
  if (listing_) draw_list();
  ImGui::End();

  for (const std::string& command : ui_.take_commands()) {
    work(command.substr(0, command.find(' ')), [this, command] {
      session().try_run(command);
      notice_.clear();
    });
  }
  if (announces_work()) draw_sign();
}

/// Runs a command now; or after this frame, if the last one of that name took long.
void Shell::work(const std::string& name, std::function<void()> run) {
  const auto took = took_.find(name);
  if (announces_work() || (took != took_.end() && took->second >= kLong)) {
    waiting_.push_back({name, std::move(run)});
  } else {
    time({name, std::move(run)});
  }
}

void Shell::time(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work.run();
  if (work.name.empty()) return;
  took_[work.name] =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void Shell::work_off() {
  for (const Work& work : std::exchange(waiting_, {})) time(work);
}

void Shell::draw_sign() {
  const float s = ui_.scale();
  const char* const words = "working ...";
  const ImVec2 all = ImGui::GetIO().DisplaySize, size = ImGui::CalcTextSize(words);
  const ImVec2 middle(all.x / 2, all.y / 2), half(size.x / 2 + 24 * s, size.y / 2 + 14 * s);
  ImDrawList& list = *ImGui::GetForegroundDrawList();
  const ImVec2 corner(middle.x - half.x, middle.y - half.y),
      end(middle.x + half.x, middle.y + half.y);
  list.AddRectFilled(corner, end, window_theme->panel, 8 * s);
  list.AddRect(corner, end, window_theme->accent, 8 * s, 0, 2 * s);
  list.AddText(ImVec2(middle.x - size.x / 2, middle.y - size.y / 2), window_theme->text, words);
}

/// On its way from what was shown, or at once.
void Shell::show(Stage& stage, Scene scene, bool moves) {
  const Room before = stage.scene().room(), now = scene.room();
  if (!session().moves_on()) scene.drop_hints();
  if (!moves || before.w != now.w || before.h != now.h || stage.scene().shapes().empty()) {
    return stage.cut_to(std::move(scene));
  }
  stage.move_to(std::move(scene));
  if (held_ >= 0) stage.hold(held_);
}

/// Brings the picture and the counters on their way to where the last command has brought the page.
void Shell::follow_page(const Room& room, const Room& figures, double seconds) {
  Tab& here = tab();
  Page& page = here.session->page();
  const Room shown = here.stage.scene().room();
  const bool same_room = shown.w == room.w && shown.h == room.h;
  if (here.revision != here.session->revision() || !same_room) {
    if (here.revision != here.session->revision()) notice_.clear();
    const bool moves = motion && (seconds > 0 || held_ >= 0);
    Scene scene = page.scene(room);
    const bool scrolls = on_phone_ && same_room && !std::exchange(pressed_below_, false);
    if (scrolls) changed_ = changed_place(here.stage.scene(), scene);
    show(here.stage, std::move(scene), moves);
    show(here.figures, figures_of(page, figures), moves);
  } else if (here.selected != page.selected() || ImGui::IsAnyItemActive()) {
    // What is selected, or typed into a field, may show in the picture as well.
    if (!here.stage.moving()) here.stage.cut_to(page.scene(room));
  }
  here.revision = here.session->revision();
  here.selected = page.selected();
  if (held_ >= 0) return;
  here.stage.advance(static_cast<float>(seconds) * speed_);
  here.figures.advance(static_cast<float>(seconds) * speed_);
}

/// At its end a scenario is played again.
void Shell::press_play() {
  Session& s = session();
  if (!s.can_step() && s.scenario()) s.go_to_step(0);
  s.playing = s.can_step() && !s.playing;
}

void Shell::play_film(const Scenario& film) {
  try {
    load(film);
    session().playing = true;
    to_top_ = true;
  } catch (const kv::UserError& error) {
    notice_ = error.what();
  }
}

/// Handles the keys, which are the same on all pages. Dear ImGui's own navigation is off
/// (apply_theme), so the last click does not change the meaning of a key.
void Shell::keys() {
  const ImGuiIO& io = ImGui::GetIO();
  const std::vector<Pressed> all = std::exchange(pressed_, {});
  if (io.WantTextInput) return;
  for (const ImWchar c : io.InputQueueCharacters) {
    if (c < 128) typed(static_cast<char>(c));
  }
  for (const Pressed& pressed : all) key(pressed);
}

bool Shell::takes_tab(bool backward) const {
  return !ImGui::GetIO().WantTextInput && ui_.has_stop(backward);
}

/// Once Tab has reached the speed, the arrows change it. Returns whether the key did.
bool Shell::slides(const Pressed& pressed) {
  const bool on = pressed.key == ImGuiKey_RightArrow;
  if (probe().focused != "speed" || (!on && pressed.key != ImGuiKey_LeftArrow)) return false;
  speed_ = std::clamp(speed_ * (on ? 2.0f : 0.5f), kSlowest, kFastest);
  return true;
}

void Shell::key(const Pressed& pressed) {
  if (slides(pressed)) return;
  Session& s = session();
  switch (pressed.key) {
    case ImGuiKey_Tab:
      return ui_.move_focus(pressed.shift);
    case ImGuiKey_Enter:
      return ui_.press_focus();
    case ImGuiKey_RightArrow:
      return work(s.next_verb(), [&s] { s.step(); });
    case ImGuiKey_LeftArrow:
      return work("walk", [&s] { s.step_back(); });
    case ImGuiKey_Home:
      return work("walk", [&s] { s.go_to_step(0); });
    case ImGuiKey_End:
      return work("walk", [&s] { s.go_to_step(s.num_steps()); });
    case ImGuiKey_Escape:
      if (!help_ && !opening_ && !listing_ && s.scenario() != nullptr) s.close();
      help_ = opening_ = listing_ = false;
      return;
    case ImGuiKey_Z:
      if (pressed.ctrl && !pressed.shift) return work("walk", [&s] { s.undo(); });
      [[fallthrough]];
    case ImGuiKey_Y:
      if (pressed.ctrl) work("walk", [&s] { s.redo(); });
      return;
    case ImGuiKey_C:
      if (pressed.ctrl) copy();
      return;
    case '+':
    case '-':
      if (pressed.ctrl)
        zoom = std::clamp(zoom + (pressed.key == '+' ? 0.125f : -0.125f), 0.5f, 2.0f);
      return;
    case '0':
      if (pressed.ctrl) zoom = 1;
      return;
    default:
      return;
  }
}

/// A letter of the page's large buttons does what its button does; else it is one of the window's.
void Shell::typed(char c) {
  const auto key = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const Button& button : session().page().actions()) {
    if (button.key == key) return ui_.run(button.command);
  }
  const std::map<char, std::function<void()>> actions = {
      {' ', [&] { press_play(); }},     {'R', [&] { session().reset(); }},
      {'M', [&] { motion = !motion; }}, {'T', [&] { light = !light; }},
      {'?', [&] { help_ = !help_; }},   {':', [&] { command_line_.open(); }}};
  if (const auto found = actions.find(key); found != actions.end()) found->second();
  const double now = ImGui::GetTime();
  if (now - std::exchange(digit_at_, now) > kNextDigit) digits_.clear();
  digits_ = digits_.substr(digits_.empty() ? 0 : digits_.size() - 1) + c;  // the last two
  for (const std::string& keys : {digits_, std::string(1, c)}) {
    const auto found = std::ranges::find_if(
        tabs_, [&](const Tab& one) { return key_of(one.page().info().lesson) == keys; });
    if (found != tabs_.end()) return go_to_tab(static_cast<size_t>(found - tabs_.begin()));
  }
}

}  // namespace viz
