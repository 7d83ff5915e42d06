// What the shell draws over the page when it is asked to: all pages, the help, scenarios to open.

#include <imgui.h>

#include <algorithm>

#include "viz/drawing/palette.h"
#include "viz/shell/shell.h"

namespace viz {

/// A part over the others, at one side below the row on top; it scrolls if the window is too low.
void Shell::begin_panel(const char* title, bool* open, float width, bool on_the_left) const {
  const float s = ui_.scale(), edge = 10 * s, top = 46 * s;
  const ImVec2 all = ImGui::GetIO().DisplaySize;
  const float wide = std::min(width * s, all.x - 2 * edge);
  ImGui::SetNextWindowPos(ImVec2(on_the_left ? edge : all.x - edge, top), ImGuiCond_Always,
                          ImVec2(on_the_left ? 0 : 1, 0));
  ImGui::SetNextWindowSize(ImVec2(wide, 0));  // as high as its content
  ImGui::SetNextWindowSizeConstraints(ImVec2(wide, 0), ImVec2(wide, all.y - top - edge));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, std::max(1.0f, s));
  ImGui::PushStyleColor(ImGuiCol_Border, window_theme->dim);
  ImGui::Begin(title, open,
               ImGuiWindowFlags_NoResize | ImGuiWindowFlags_NoSavedSettings |
                   ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoMove);
  ImGui::PopStyleColor();
  ImGui::PopStyleVar();
}

void Shell::draw_list() {
  begin_panel("All pages", &listing_, 700, true);
  ui_.begin_small();
  const bool titled = ImGui::GetIO().DisplaySize.y >= 700 * ui_.scale();  // else too long a list
  for (size_t i = 0; i < tabs_.size(); ++i) {
    draw_tab(i, titled);
    ui_.same_line();
  }
  ui_.end_small();
  ImGui::End();
}

void Shell::draw_help() {
  begin_panel(on_phone_ ? "Help" : "Keys and commands", &help_, 900, true);
  const auto table = [](const char* name, const Help& rows) {
    if (!ImGui::BeginTable(name, 2)) return;
    ImGui::TableSetupColumn("left", ImGuiTableColumnFlags_WidthStretch, 0.35f);
    ImGui::TableSetupColumn("right", ImGuiTableColumnFlags_WidthStretch, 0.65f);
    for (const auto& [left, right] : rows) {
      ImGui::TableNextColumn();
      ImGui::TextWrapped("%s", left.c_str());
      ImGui::TableNextColumn();
      ImGui::TextWrapped("%s", right.c_str());
    }
    ImGui::EndTable();
  };
  Help rows{{"Tap", "press a button, or choose what lies there in the picture"},
            {"Drag up, down", "scroll the picture and all that is below it"},
            {"Drag sideways", "through a film, by its knob"}};
  if (on_phone_) {
    ui_.heading(session().page().info().title);
    ui_.hint(session().page().info().summary);
  } else {
    rows = {{"Space", "play or pause; at the end: play again"},
            {"Right, Left", "a step on, a step back"},
            {"Home, End", "to the first step, to the last one"},
            {"Tab, Enter", "to the next button or field, and press it"},
            {"Tab, Left, Right", "to the speed, slower, faster"},
            {"Ctrl+Z, Ctrl+Y", "undo, redo"},
            {"R", "reset"},
            {":", "type a command"},
            {"Ctrl and +, -, 0", "larger, smaller, as it was"},
            {"Ctrl+C", "copy the picture"},
            {"M", "motion on or off"},
            {"T", "dark or light"},
            {"1 to 9", "the page of this lesson; 1 and at once 3: page 13"},
            {"?, Esc", "this help; Esc also closes a film"}};
    for (const Button& button : session().page().actions()) {
      if (button.key != 0) rows.emplace_back(std::string(1, button.key), button.label);
    }
  }
  table("keys", rows);
  ui_.heading("Commands of this page, as scenarios write them");
  table("commands", session().page().help());
  ImGui::End();
}

void Shell::draw_open() {
  begin_panel("Open a scenario", &opening_, 420, false);
  const std::vector<std::string> names =
      outside_.list ? outside_.list() : std::vector<std::string>();
  for (const std::string& name : names) {
    if (ui_.shell_button("load/" + name, name, "Its page opens")) open(name);
  }
  ui_.text("load/file", "file", &open_name_, "A scenario: a path. Its page opens.");
  if (ui_.shell_button("load", "Load", "Load the scenario from this file",
                       open_name_.empty() ? "no file is named" : "")) {
    open(open_name_);
  }
  ui_.hint(notice_.empty() ? "A file that is dropped on the window opens as well." : notice_);
  ImGui::End();
}

}  // namespace viz
