// The parts of the window around the page's picture. shell_scroll.cpp scrolls the picture.

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "viz/drawing/palette.h"
#include "viz/drawing/side_scenes.h"
#include "viz/shell/scene_view.h"
#include "viz/shell/shell.h"

namespace viz {
namespace {

constexpr int kFixed = ImGuiWindowFlags_NoScrollbar | ImGuiWindowFlags_NoScrollWithMouse;

ImVec4 colour(Colour c) { return ImGui::ColorConvertU32ToFloat4(c); }

/// "05  Share and copy"; of a page that is no lesson's its title.
std::string label_of(const PageInfo& info) {
  const bool has_number = std::isdigit(static_cast<unsigned char>(info.lesson.front())) != 0;
  return has_number ? info.lesson + "  " + info.title : info.title;
}

/// Width of the widest text that names a speed.
float speed_width() { return ImGui::CalcTextSize("speed 0.25").x; }

float button_width(const std::string& label) {
  return ImGui::CalcTextSize(label.c_str()).x + 2 * ImGui::GetStyle().FramePadding.x;
}

}  // namespace

/// A part of the window, in points. Framed: a panel with an edge of its own.
bool Shell::begin(const char* name, const Place& at, bool framed, int flags) const {
  const float s = ui_.scale(), pad = framed ? kSidePad * s : 0;
  ImGui::SetCursorPos(ImVec2(at.x * s, at.y * s));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(pad, framed ? 8 * s : 0));
  ImGui::PushStyleColor(ImGuiCol_ChildBg,
                        colour(framed ? window_theme->panel : window_theme->ground));
  const bool open = ImGui::BeginChild(name, ImVec2(at.w * s, at.h * s), false,
                                      ImGuiWindowFlags_AlwaysUseWindowPadding | flags);
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
  return open;
}

/// A button that opens a page, with its title or its number alone.
void Shell::draw_tab(size_t index, bool titled) {
  const PageInfo info = tabs_[index].page().info();
  const bool selected = index == current_;
  if (selected) ui_.light();
  const std::string tooltip = fmt::format("{}: {}", info.title, info.summary);
  if (ui_.shell_button("tab " + info.lesson, titled ? label_of(info) : info.lesson, tooltip)) {
    go_to_tab(index);
    listing_ = false;
  }
}

/// As many tabs as have room in the width: with all titles, else with that of the current page,
/// close together if they must be; and if that is too wide, those around the current page, with a
/// button that lists all.
void Shell::draw_page_tabs(float width) {
  const ImGuiStyle& style = ImGui::GetStyle();
  size_t first = 0, end = tabs_.size();
  bool titled = true;
  const auto fits = [&] {
    float used = first == 0 && end == tabs_.size() ? 0 : button_width("All") + style.ItemSpacing.x;
    for (size_t i = first; i < end; ++i) {
      const PageInfo info = tabs_[i].page().info();
      used += button_width(titled || i == current_ ? label_of(info) : info.lesson);
      used += style.ItemSpacing.x;
    }
    return used <= width;
  };
  titled = fits();
  const bool tight = !fits();
  if (tight) {
    ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(5 * ui_.scale(), style.FramePadding.y));
    ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(3 * ui_.scale(), style.ItemSpacing.y));
  }
  while (!fits() && end - first > 1) current_ - first > end - 1 - current_ ? ++first : --end;
  for (size_t i = first; i < end; ++i) {
    draw_tab(i, titled || (i == current_ && fits()));
    ImGui::SameLine();
  }
  if (end - first < tabs_.size()) {
    if (ui_.shell_button("all tabs", "All", "All pages")) listing_ = !listing_;
  }
  if (tight) ImGui::PopStyleVar(2);
}

void Shell::draw_tabs(const Place& at) {
  begin("tabs", at, false, kFixed);
  const float spacing = ImGui::GetStyle().ItemSpacing.x;
  const std::string sign = motion ? "Motion on" : "Motion off";
  float right = button_width("?");
  if (!is_small_) right += button_width(sign) + spacing;
  if (outside_.keep) right += button_width(outside_.save) + spacing;
  if (outside_.open) right += button_width("Open") + spacing;
  const float help_at = ImGui::GetContentRegionMax().x - right;
  draw_page_tabs(help_at - spacing);
  ImGui::SameLine(help_at);
  if (outside_.keep) {
    const bool nothing = session().recorded({}).commands.empty();
    if (ui_.shell_button("record", outside_.save, outside_.save_tooltip,
                         nothing ? "nothing has been done" : "")) {
      keep();
    }
    ui_.same_line();
  }
  if (outside_.open) {
    if (ui_.shell_button("open", "Open", "Open a scenario")) opening_ = !opening_;
    ui_.same_line();
  }
  if (!is_small_ &&
      ui_.shell_button("motion", sign, "Whether the picture moves from state to state (M)")) {
    motion = !motion;
  }
  ui_.same_line();
  if (ui_.shell_button("help", "?", on_phone_ ? "Help" : "Keys and commands")) help_ = !help_;
  ImGui::EndChild();
}

/// The picture; on a phone held upright with the side below it.
void Shell::draw_main(const WindowLayout& layout, double seconds) {
  const bool is_all = layout.page.h > 0;
  const Place& at = is_all ? layout.page : layout.main;
  const float part = picture_part(layout);
  Stage& stage = tab().stage;
  const bool fits = part * stage.scene().room().h < at.h + 1;  // rounded as its place is
  begin("page", at, false, fits && !is_all ? kFixed : 0);
  panned_ = {};
  const SceneClick click = draw_scene(ui_, stage.scene(), stage.drawn(), part);
  pan_picture(part, seconds);
  if (std::exchange(to_top_, false)) ImGui::SetScrollY(0);
  if (!click.command.empty()) ui_.run(click.command);
  if (!click.selects.empty()) session().page().select(click.selects);
  bool scrolls = false, has_more = false;  // below what is seen of the page
  if (is_all) {
    const float above = ImGui::GetCursorPosY(), rest = ImGui::GetScrollMaxY();
    if (std::exchange(to_side_, false)) ImGui::SetScrollY(above);
    scrolls = rest > 0;
    has_more = std::min(above, rest) > ImGui::GetScrollY() + 1;
    draw_side_parts(part * stage.scene().room().w, layout.counters.h == 0);
  }
  ImGui::EndChild();
  if (scrolls) draw_way(layout.way, has_more);
}

/// The way to what is below the picture, or back to it.
void Shell::draw_way(const Place& at, bool down) {
  const bool has_films = session().scenario() == nullptr && !tab().films.empty();
  const char* const more = has_films ? "\u2193 Films, more" : "\u2193 More";
  const char* const name = down ? "down" : "up";
  begin("way", at, false, kFixed);
  if (ui_.shell_button(name, down ? more : "\u2191 Picture", "Scrolls", "", at.w * ui_.scale())) {
    (down ? to_side_ : to_top_) = true;
  }
  ImGui::EndChild();
}

/// In a window More stands beside them, and if there is no player, Undo and Reset.
void Shell::draw_actions(const Place& at, bool has_player) {
  begin("actions", at, false, kFixed);
  ui_.begin_large(on_phone_ ? kFinger + 1 : at.h);  // whole pixels round down
  session().page().buttons(ui_, session().page().actions());
  if (!on_phone_ && parts().side) {
    ImGui::SameLine(ImGui::GetContentRegionMax().x - button_width("More"));
    draw_more_button();
  }
  if (!has_player) {
    ui_.same_line();
    draw_undo_buttons();
    draw_reset_button();
  }
  ui_.end_large();
  ImGui::EndChild();
}

void Shell::draw_counters(const Place& at) {
  begin("counters", at, false, kFixed);
  draw_scene(ui_, tab().figures.scene(), tab().figures.drawn());
  ImGui::EndChild();
}

void Shell::draw_films(const Room& room, bool in_column) {
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  const Scene scene = films_of(tab().films, room, in_column);
  draw_scene(ui_, scene, at_rest(scene));
  for (const Scenario& film : tab().films) {
    const std::string id = "film/" + film.name;
    const float s = ui_.scale();
    const Place& at = scene.find(id)->at;
    if (ui_.button_over(id, "Plays this film", origin.x + s * at.x, origin.y + s * at.y, s * at.w,
                        s * at.h)) {
      return play_film(film);
    }
  }
}

void Shell::draw_more_button() {
  const char* const label = shows_more_ ? "Less" : "More";
  if (!ui_.shell_button("more", label, "Rarer commands, fields, and what happened")) return;
  shows_more_ = !shows_more_;
  to_side_ = shows_more_ && upright_;
}

/// The page's controls; of a page with large buttons, if more are wanted. A live run has no others.
void Shell::draw_controls() {
  Page& page = session().page();
  const bool live = page.why_not(parse_command("stop")).empty(), acts = !page.actions().empty();
  if (live) ui_.hint("The engine runs. Stop brings the settings back.");
  if (!live && acts && on_phone_) draw_more_button();
  const size_t queued = ui_.num_commands();
  if (!live && (!acts || shows_more_)) page.draw(ui_);
  if (ui_.num_commands() > queued) pressed_below_ = upright_;
  ui_.divider();
}

void Shell::draw_side(const Place& at, bool counts) {
  begin("side", at, true, on_phone_ ? ImGuiWindowFlags_NoScrollbar : 0);
  draw_side_parts(at.w - 2 * kSidePad, counts);
  ImGui::EndChild();
}

void Shell::draw_side_parts(float width, bool counts) {
  ui_.begin_small();
  const bool low = on_phone_ && !upright_;  // the counters alone would fill it
  if (low) draw_controls();
  if (counts) {
    draw_scene(ui_, tab().figures.scene(), tab().figures.drawn());
    ui_.divider();
  }
  if (!low) draw_controls();
  if (is_small_ && session().scenario() == nullptr) {
    const auto count = static_cast<float>(tab().films.size());
    draw_films({width, count * (kFinger + 8)}, true);
  }
  draw_log();
  ui_.end_small();
}

/// Draws the last lines that there is room for, the newest first; a few where all scrolls.
void Shell::draw_log() {
  const std::vector<Session::LogLine>& log = session().log();
  const float few = upright_ ? 8 * ImGui::GetTextLineHeightWithSpacing() : 0;
  const float room = std::max(ImGui::GetContentRegionAvail().y, few);
  if (log.empty() || room < 2 * ImGui::GetFrameHeight()) return;
  ui_.hint("What happened");
  const float left = room - ImGui::GetTextLineHeightWithSpacing();
  const float wide = ImGui::GetContentRegionAvail().x;
  float used = 0;
  for (size_t i = log.size(); i-- > 0;) {
    const std::string& text = log[i].text;
    used +=
        ImGui::CalcTextSize(text.c_str(), nullptr, false, wide).y + ImGui::GetStyle().ItemSpacing.y;
    if (used > left) break;
    const bool newest = i + 1 == log.size();
    ImGui::PushStyleColor(ImGuiCol_Text, colour(log[i].error ? window_theme->error
                                                : newest     ? window_theme->text
                                                             : window_theme->dim));
    ImGui::TextWrapped("%s", text.c_str());
    ImGui::PopStyleColor();
  }
}

/// What the scenario says; without one, or when something was refused, what happened.
void Shell::draw_sentence(const Place& at) {
  begin("sentence", at, false, kFixed);
  const Session& s = session();
  std::string words = s.caption();
  Ink ink = Ink::kText;
  if (!notice_.empty()) {
    words = notice_;
  } else if (!s.log().empty() && (words.empty() || s.log().back().error)) {
    words = s.log().back().text;
    if (s.log().back().error) ink = Ink::kError;
  } else if (words.empty()) {
    words = s.page().info().summary;
    ink = Ink::kDim;
  }
  const Scene scene = sentence_of(words, ink, {at.w, at.h});
  draw_scene(ui_, scene, at_rest(scene));
  ImGui::EndChild();
}

void Shell::draw_player(const Place& at) {
  begin("player", at, false, kFixed);
  if (command_line_.is_open()) {
    const std::string line = command_line_.draw(ui_, session().page().help());
    if (line == "?") {
      help_ = true;
    } else if (!line.empty()) {
      notice_.clear();
      work(line.substr(0, line.find(' ')), [this, line] { session().try_run(line); });
    }
    return ImGui::EndChild();
  }
  Session& s = session();
  const bool told = s.scenario() != nullptr;
  const bool plays = told || s.page().actions().empty();  // or its own buttons play a live run
  if (on_phone_) ui_.begin_small();
  if (plays) draw_play_buttons();
  const float spacing = ImGui::GetStyle().ItemSpacing.x, slider = 4 * ImGui::GetFontSize();
  float rest = 0;
  for (const char* label : {"Undo", "Reset", on_phone_ ? "" : "Redo", is_small_ ? "" : ">_",
                            told ? "Close film" : ""}) {
    if (*label != '\0') rest += button_width(label) + spacing;
  }
  if (!is_small_ && told) rest += slider + speed_width() + 2 * spacing;
  if (!upright_) {
    if (plays) ImGui::SameLine();
    const float left = ImGui::GetCursorPosX();
    const float wide = std::max(60 * ui_.scale(), ImGui::GetContentRegionAvail().x - rest);
    if (told) {
      draw_scrubber(wide);
    } else if (!is_small_) {
      draw_films({wide / ui_.scale() - 8, at.h}, false);
      ImGui::SameLine(left + wide);
    }
  }
  if (plays && upright_) ui_.same_line();
  draw_undo_buttons();
  draw_reset_button();
  if (!is_small_) draw_speed(told ? slider : 0);
  if (told) {
    ui_.same_line();
    if (ui_.shell_button("close", "Close film", "Back to what the page showed before")) s.close();
  }
  if (upright_ && told) draw_scrubber(ImGui::GetContentRegionAvail().x);
  if (on_phone_) ui_.end_small();
  ImGui::EndChild();
}

/// Draws the buttons Play, Back and Step.
void Shell::draw_play_buttons() {
  Session& s = session();
  const char* none = s.can_step()   ? ""
                     : s.scenario() ? "the scenario is at its end"
                                    : "load a scenario, or begin a live run";
  const bool again = !s.can_step() && s.scenario();
  if (ui_.shell_button("play",
                       s.playing ? "Pause"
                       : again   ? "Again"
                                 : "Play",
                       "Play the scenario, or let the live run go on (Space)", again ? "" : none,
                       button_width("Pause"))) {
    work("walk", [this] { press_play(); });
  }
  ui_.same_line();
  if (ui_.shell_button("back", "Back", "One step back (Left arrow)",
                       s.can_undo() ? "" : "nothing has been done")) {
    work("walk", [&s] { s.step_back(); });
  }
  ui_.same_line();
  if (ui_.shell_button("step", "Step",
                       "The next command, or the next token of a live run (Right arrow)", none)) {
    work(s.next_verb(), [&s] { s.step(); });
  }
}

void Shell::draw_undo_buttons() {
  Session& s = session();
  if (ui_.shell_button("undo", "Undo", "Take the last command back (Ctrl+Z)",
                       s.can_undo() ? "" : "nothing has been done")) {
    work("walk", [&s] { s.undo(); });
  }
  if (on_phone_ || !parts().player) return;
  ui_.same_line();
  if (ui_.shell_button("redo", "Redo", "Do it again (Ctrl+Y)",
                       s.can_redo() ? "" : "nothing was taken back")) {
    work("walk", [&s] { s.redo(); });
  }
}

void Shell::draw_reset_button() {
  ui_.same_line();
  if (ui_.shell_button("reset", "Reset", "As it was when it opened (R)")) session().reset();
}

/// The button for the command line, and a slider of this width for the speed, or none.
void Shell::draw_speed(float width) {
  ui_.same_line();
  if (ui_.shell_button("type", ">_", "Type a command, as scenarios have it (:)")) {
    command_line_.open();
  }
  if (width == 0) return;
  ImGui::SameLine();
  ImGui::SetNextItemWidth(width);
  ImGui::SliderFloat("##speed", &speed_, kSlowest, kFastest, "",
                     ImGuiSliderFlags_Logarithmic | ImGuiSliderFlags_AlwaysClamp);
  ui_.note_slider("speed", "How fast it plays (Tab, then Left and Right)");
  ImGui::SameLine();
  const std::string speed = fmt::format("speed {:.2g}", speed_);
  ImGui::TextUnformatted(speed.c_str());
  ImGui::SameLine(0, std::max(0.0f, speed_width() - ImGui::CalcTextSize(speed.c_str()).x));
  ImGui::Dummy(ImVec2(0, 0));  // the next control stays in place while the speed changes
}

/// Where the scenario is: a tick for each step. Dragging goes there.
void Shell::draw_scrubber(float width) {
  Session& s = session();
  const float u = ui_.scale(), high = ImGui::GetFrameHeight();
  const auto steps = static_cast<float>(s.num_steps());
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const float left = corner.x + 10 * u, right = corner.x + width - 78 * u;
  const float y = corner.y + high / 2;
  const auto x_of = [&](size_t step) {
    return left + (right - left) * static_cast<float>(step) / std::max(steps, 1.0f);
  };
  ImGui::InvisibleButton("scrubber", ImVec2(std::max(1.0f, right - corner.x + 10 * u), high));
  ui_.note_slider("scrubber", "The steps: drag it, or press Left, Right, Home or End",
                  s.num_steps() == 0 ? "nothing has been done" : "");
  if (ImGui::IsItemActive() && s.num_steps() > 0) {
    const float part = (ImGui::GetIO().MousePos.x - left) / std::max(right - left, 1.0f);
    const auto to = static_cast<size_t>(std::lround(std::clamp(part, 0.0f, 1.0f) * steps));
    if (to != s.steps_done()) work("walk", [&s, to] { s.go_to_step(to); });
  }
  ImDrawList& list = *ImGui::GetWindowDrawList();
  const float here = x_of(s.steps_done());
  list.AddLine(ImVec2(left, y), ImVec2(right, y), window_theme->line, 4 * u);
  if (s.num_steps() > 0) {
    list.AddLine(ImVec2(left, y), ImVec2(here, y), window_theme->accent, 4 * u);
    const size_t stride = 1 + s.num_steps() / 64;  // of a long run not every step
    for (size_t step = 0; step <= s.num_steps(); step += stride) {
      const float x = x_of(step);
      ui_.region(fmt::format("step {}", step), x - 6 * u, corner.y, 12 * u, high);
      list.AddCircleFilled(ImVec2(x, y), 4 * u,
                           step <= s.steps_done() ? window_theme->accent : window_theme->dim);
    }
    list.AddCircleFilled(ImVec2(here, y), 8 * u, window_theme->text);
  }
  const std::string count =
      s.num_steps() > 0 ? fmt::format("{} of {}", s.steps_done(), s.num_steps()) : "";
  list.AddText(ImVec2(right + 14 * u, y - ImGui::GetFontSize() / 2), window_theme->dim,
               count.c_str());
  ImGui::SameLine(corner.x - ImGui::GetWindowPos().x + width);
}

}  // namespace viz
