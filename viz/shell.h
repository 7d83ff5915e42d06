#pragma once

// Everything around the pages: tabs, the scenario player, the log, keys, help.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "viz/imgui_ui.h"
#include "viz/page.h"
#include "viz/session.h"
#include "viz/stage.h"

namespace viz {

class Shell {
 public:
  /// `scenarios`: files that the player offers, for all pages.
  Shell(std::vector<std::unique_ptr<Page>> pages, std::vector<std::filesystem::path> scenarios);

  /// Selects a page by its lesson's number. Throws UserError if there is none.
  void select(const std::string& lesson);
  Session& session() { return *tabs_[current_].session; }
  /// One frame: draws everything into the current ImGui frame, then runs what was clicked.
  void frame(float width, float height, float scale, double seconds);
  const Probe& probe() const { return ui_.probe(); }
  /// Recorded sessions are written here.
  std::filesystem::path record_file = "recorded.txt";

 private:
  struct Tab {
    std::unique_ptr<Session> session;
    std::vector<std::filesystem::path> scenarios;
    Stage stage;
    int64_t shown = -1;  // the revision of the session that the stage shows
  };
  void draw_stage(const Room& room, double seconds);
  void draw_tabs();
  void draw_player();
  void draw_log();
  void draw_help();
  void keys();
  void load(const std::filesystem::path& file);
  void save_recording();

  std::vector<Tab> tabs_;
  size_t current_ = 0;
  ImGuiUi ui_;
  bool help_ = false;
  std::string load_file_;
  std::string notice_;
};

}  // namespace viz
