#include "viz/shell.h"

#include <fmt/format.h>
#include <imgui.h>

#include <cctype>
#include <fstream>
#include <utility>

#include "common/base/error.h"
#include "viz/palette.h"
#include "viz/scene_view.h"
#include "viz/widgets.h"

namespace viz {
namespace {

ImVec4 colour(Colour c) { return ImGui::ColorConvertU32ToFloat4(c); }

/// "05  Share and copy"; of a page that is no lesson's its title.
std::string label_of(const PageInfo& info) {
  const bool has_number = std::isdigit(static_cast<unsigned char>(info.lesson.front())) != 0;
  return has_number ? info.lesson + "  " + info.title : info.title;
}

}  // namespace

Shell::Shell(std::vector<std::unique_ptr<Page>> pages,
             std::vector<std::filesystem::path> scenarios) {
  for (std::unique_ptr<Page>& page : pages) {
    Tab tab;
    tab.session = std::make_unique<Session>(std::move(page));
    const std::string lesson = tab.session->page().info().lesson;
    for (const std::filesystem::path& file : scenarios) {
      const std::string owner = file.parent_path().parent_path().filename().string();
      if (owner == lesson || owner.starts_with(lesson + "_")) tab.scenarios.push_back(file);
    }
    tabs_.push_back(std::move(tab));
  }
}

void Shell::select(const std::string& lesson) {
  for (size_t i = 0; i < tabs_.size(); ++i) {
    if (tabs_[i].session->page().info().lesson == lesson) {
      current_ = i;
      return;
    }
  }
  std::string known;
  for (const Tab& tab : tabs_) known += " " + tab.session->page().info().lesson;
  kv::user_error("there is no page {}; there are{}", lesson, known);
}

void Shell::frame(float width, float height, float scale, double seconds) {
  ui_.begin_frame(scale);
  ImGui::SetNextWindowPos(ImVec2(0, 0));
  ImGui::SetNextWindowSize(ImVec2(width, height));
  ImGui::Begin("Page by Page", nullptr,
               ImGuiWindowFlags_NoDecoration | ImGuiWindowFlags_NoMove |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoBringToFrontOnFocus);
  keys();
  draw_tabs();
  const float side = std::min(350 * scale, width * 0.33f);
  Page& page = session().page();
  ImGui::BeginChild("page", ImVec2(-side - 16 * scale, 0));
  ui_.hint(page.info().summary);
  counters(ui_, page.counters());
  const ImVec2 room = ImGui::GetContentRegionAvail();
  draw_stage({room.x / scale, 0.7f * room.y / scale}, seconds);
  page.draw(ui_);
  ImGui::EndChild();
  ImGui::SameLine(0, 16 * scale);
  ImGui::BeginChild("side", ImVec2(0, 0));
  draw_player();
  draw_log();
  ImGui::EndChild();
  if (help_) draw_help();
  ImGui::End();

  for (const std::string& command : ui_.take_commands()) session().try_run(command);
  session().advance(seconds);
}

/// The page's picture, on its way to where the last command has brought it.
void Shell::draw_stage(const Room& room, double seconds) {
  Tab& tab = tabs_[current_];
  Stage& stage = tab.stage;
  Page& page = tab.session->page();
  const Room before = stage.scene().room();
  const bool same_room = before.w == room.w && before.h == room.h;
  if (Scene scene = page.scene(room); tab.shown != tab.session->revision() && same_room) {
    stage.move_to(std::move(scene), 0.45f);
  } else if (!stage.moving() || !same_room) {
    stage.cut_to(std::move(scene));
  }
  tab.shown = tab.session->revision();
  if (stage.scene().shapes().empty()) return;
  const SceneClick click = draw_scene(ui_, stage.scene(), stage.drawn());
  if (!click.command.empty()) ui_.run(click.command);
  if (!click.selects.empty()) page.select(click.selects);
  stage.advance(static_cast<float>(seconds));
}

void Shell::draw_tabs() {
  ImGui::PushStyleColor(ImGuiCol_Text, colour(kText));
  const ImGuiStyle& style = ImGui::GetStyle();
  float width = 0;
  for (const Tab& tab : tabs_) {
    width += ImGui::CalcTextSize(label_of(tab.session->page().info()).c_str()).x +
             2 * style.FramePadding.x + style.ItemSpacing.x;
  }
  const float help_at = ImGui::GetContentRegionMax().x - 3.5f * ImGui::GetFontSize();
  const bool all_fit = ImGui::GetCursorPosX() + width <= help_at;
  for (size_t i = 0; i < tabs_.size(); ++i) {
    const PageInfo& info = tabs_[i].session->page().info();
    const bool selected = i == current_;
    if (selected) {
      ImGui::PushStyleColor(ImGuiCol_Button, ImGui::GetStyle().Colors[ImGuiCol_TabActive]);
    }
    const std::string label = all_fit || selected ? label_of(info) : info.lesson;
    if (ui_.shell_button("tab " + info.lesson, label, info.title + ": " + info.summary)) {
      current_ = i;
    }
    if (selected) ImGui::PopStyleColor();
    ImGui::SameLine();
  }
  ImGui::PopStyleColor();
  ImGui::SameLine(help_at);
  if (ui_.shell_button("help", "?", "Keys and commands")) help_ = !help_;
  ImGui::Separator();
}

void Shell::draw_player() {
  Session& s = session();
  ui_.heading("Session");
  if (ui_.shell_button("undo", "Undo", "Take the last command back (Ctrl+Z)",
                       s.can_undo() ? "" : "nothing has been done")) {
    s.undo();
  }
  ui_.same_line();
  if (ui_.shell_button("redo", "Redo", "Do it again (Ctrl+Y)",
                       s.can_redo() ? "" : "nothing was taken back")) {
    s.redo();
  }
  ui_.same_line();
  if (ui_.shell_button("reset", "Reset", "Back to a new page (R)")) s.reset();
  ui_.same_line();
  if (ui_.shell_button("record", "Save",
                       fmt::format("Write this session as a scenario to {}", record_file.string()),
                       s.recorded({}).commands.empty() ? "nothing has been done" : "")) {
    save_recording();
  }

  ui_.heading("Scenarios");
  const std::vector<std::filesystem::path>& files = tabs_[current_].scenarios;
  if (files.empty()) ui_.hint("This page has none.");
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string name = files[i].stem().string();
    if (i > 0) ui_.same_line();
    if (ui_.shell_button("scenario/" + name, name, "Load this scenario: then play it or step")) {
      load(files[i]);
    }
  }
  ui_.text("load/file", "file", &load_file_, "A scenario: a path. Its page opens.");
  ui_.same_line();
  if (ui_.shell_button("load", "Load", "Load the scenario from this file",
                       load_file_.empty() ? "no file is named" : "")) {
    load(load_file_);
  }
  const char* none = s.can_step()   ? ""
                     : s.scenario() ? "the scenario is at its end"
                                    : "load a scenario, or begin a live run";
  if (ui_.shell_button("play", s.playing ? "Pause" : "Play",
                       "Play the scenario, or let the live run go on (Space)", none)) {
    s.playing = !s.playing;
  }
  ui_.same_line();
  if (ui_.shell_button("step", "Step",
                       "The next command, or the next token of a live run (Right arrow)", none)) {
    s.step();
  }
  ImGui::SameLine();
  auto seconds = static_cast<float>(s.seconds_per_step);
  ImGui::SetNextItemWidth(-1);
  if (ImGui::SliderFloat("##speed", &seconds, 0.1f, 4.0f, "%.1f s a step")) {
    s.seconds_per_step = static_cast<double>(seconds);
  }
  if (s.scenario()) {
    ui_.hint(fmt::format("{}: {} of {}", s.scenario()->name, s.position(),
                         s.scenario()->commands.size()));
  }
  if (!s.caption().empty()) {
    ImGui::PushStyleColor(ImGuiCol_ChildBg, colour(rgb(0x1F3A4D)));
    const float wrap = ImGui::GetContentRegionAvail().x - 24 * ui_.scale();
    const float h = ImGui::CalcTextSize(s.caption().c_str(), nullptr, false, wrap).y;
    ImGui::BeginChild("caption", ImVec2(0, h + 22 * ui_.scale()));
    ImGui::SetCursorPos(ImVec2(12 * ui_.scale(), 10 * ui_.scale()));
    ImGui::PushTextWrapPos(ImGui::GetCursorPosX() + wrap);
    ImGui::TextUnformatted(s.caption().c_str());
    ImGui::PopTextWrapPos();
    ImGui::EndChild();
    ImGui::PopStyleColor();
  }
  if (!notice_.empty()) ui_.hint(notice_);
}

void Shell::draw_log() {
  ui_.heading("What happened");
  ImGui::BeginChild("log", ImVec2(0, 0));
  const std::vector<Session::LogLine>& log = session().log();
  for (size_t i = log.size(); i-- > 0;) {  // newest first
    ImGui::PushStyleColor(ImGuiCol_Text, colour(log[i].error          ? kError
                                                : i + 1 == log.size() ? kText
                                                                      : kDim));
    ImGui::PushTextWrapPos(0);
    ImGui::TextUnformatted(log[i].text.c_str());
    ImGui::PopTextWrapPos();
    ImGui::PopStyleColor();
  }
  if (log.empty()) ui_.hint("Nothing yet. Press a button on the left, or load a scenario.");
  ImGui::EndChild();
}

void Shell::draw_help() {
  ImGui::SetNextWindowPos(ImVec2(40 * ui_.scale(), 60 * ui_.scale()));
  ImGui::Begin("Keys and commands", &help_,
               ImGuiWindowFlags_AlwaysAutoResize | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoCollapse);
  ImGui::TextUnformatted(
      "Space    play or pause the scenario\nRight    next step\nCtrl+Z   undo\nCtrl+Y   redo\n"
      "R        reset\n1 to 9   page\n?, Esc   this help\n");
  ui_.heading("Commands of this page, as scenarios write them");
  for (const auto& [command, help] : session().page().help()) {
    ImGui::TextUnformatted(command.c_str());
    ImGui::SameLine(17 * ImGui::GetFontSize());
    ImGui::TextUnformatted(help.c_str());
  }
  ImGui::End();
}

/// Dear ImGui's own keys are off (apply_theme), so a key has one meaning, whatever was clicked
/// last.
void Shell::keys() {
  const ImGuiIO& io = ImGui::GetIO();
  if (io.WantTextInput) return;
  Session& s = session();
  for (const ImWchar c : io.InputQueueCharacters) {
    if (c == '?') help_ = !help_;
    if (c == 'r' || c == 'R') s.reset();
    if (c == ' ' && s.can_step()) s.playing = !s.playing;
    for (size_t i = 0; i < tabs_.size(); ++i) {
      if (tabs_[i].session->page().info().lesson == fmt::format("0{}", static_cast<char>(c))) {
        current_ = i;
      }
    }
  }
#if IMGUI_VERSION_NUM < 18700
  const auto pressed = [](ImGuiKey key) { return ImGui::IsKeyPressed(ImGui::GetKeyIndex(key)); };
#else
  const auto pressed = [](ImGuiKey key) { return ImGui::IsKeyPressed(key); };
#endif
  if (pressed(ImGuiKey_Escape)) help_ = false;
  if (pressed(ImGuiKey_RightArrow)) s.step();
  if (io.KeyCtrl && pressed(ImGuiKey_Z)) s.undo();
  if (io.KeyCtrl && pressed(ImGuiKey_Y)) s.redo();
}

void Shell::load(const std::filesystem::path& file) {
  try {
    Scenario scenario = Scenario::load(file);
    select(scenario.page);
    session().load(std::move(scenario));
    notice_.clear();
  } catch (const kv::UserError& error) {
    notice_ = error.what();
  }
}

void Shell::save_recording() {
  std::ofstream out(record_file);
  out << session().recorded(record_file.stem().string()).text();
  out.close();
  load_file_ = record_file.string();
  notice_ = out ? "saved to " + record_file.string() : "cannot write " + record_file.string();
}

}  // namespace viz
