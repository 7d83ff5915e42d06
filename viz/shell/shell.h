#pragma once

// Everything around the pages: tabs, the scenario player, the log, keys, help. It knows no files:
// a browser has none.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "viz/drawing/stage.h"
#include "viz/drawing/window_layout.h"
#include "viz/page.h"
#include "viz/shell/command_line.h"
#include "viz/shell/imgui_ui.h"
#include "viz/shell/session.h"

namespace viz {

/// Functions that a desktop and a browser have in different ways. Both throw UserError for those
/// that they lack.
struct Outside {
  std::string save = "Save";  // the button that keeps what was done
  std::string save_tooltip = {};
  std::string saved_to = "saved to ";                              // before keep()'s result
  std::function<std::string(const Scenario& recorded)> keep = {};  // returns where; none: no button
  std::function<std::vector<std::string>()> list = {};  // names that open() takes, for a choice
  std::function<Scenario(const std::string& name)> open = {};  // none: no field for a name
  std::string open_first = {};                                 // in the field at first
  /// Copies the picture, which is an SVG here too; returns what was done. None: the SVG's text.
  std::function<std::string(const std::string& svg)> copy = {};
};

/// All pages, new.
using PageFactory = std::function<std::vector<std::unique_ptr<Page>>()>;

class Shell {
 public:
  /// `scenarios`: what the player offers, for all pages.
  Shell(const PageFactory& make_pages, const std::vector<Scenario>& scenarios,
        Outside outside = {});

  /// Selects a page by its lesson's number. Throws UserError if there is none.
  void select(const std::string& lesson);
  /// The first page that has the command, if this one lacks it; else empty.
  std::string other_page_with(const std::string& verb) const;
  Session& session() { return *tabs_[current_].session; }
  /// Loads a scenario: its page opens. Throws UserError if there is no such page.
  void load(Scenario scenario);
  /// The same for what outside.open finds; what is wrong is told in the window.
  void open(const std::string& name);
  /// Shows words below the picture until the page changes.
  void tell(std::string words) { notice_ = std::move(words); }
  const std::string& notice() const { return notice_; }
  /// One frame: draws everything into the current ImGui frame, then runs what was clicked. If no
  /// time has passed, nothing is on its way: the picture shows the end of each motion.
  void frame(float width, float height, float scale, double seconds);
  const Probe& probe() const { return ui_.probe(); }
  /// Does what the last frame has announced: commands that took long the last time wait until the
  /// sign "working ..." is on the screen. Call it between two frames.
  void work_off();
  bool announces_work() const { return !waiting_.empty(); }
  /// A key went down: an ImGuiKey that is an arrow, Tab, Enter, Home, End, Escape, or a letter with
  /// Ctrl; or '+', '-', '0' with Ctrl. It is taken in the next frame, however short the press was.
  void press(int key, bool ctrl, bool shift) { pressed_.push_back({key, ctrl, shift}); }
  /// Tab stays in the window: it leads to a control.
  bool takes_tab(bool backward) const;
  /// A finger moves a page or picture that is taller than its place; whether more is that way.
  void pan(float down) {
    pan_ += down;
    changed_ = {};
  }
  bool pans(float x, float y, float down = 0) const {
    const bool ends = down > 0 ? scrolled_ == 0 : down < 0 && scrolled_ == 1;
    return panned_.w > 0 && panned_.holds({x, y, 0, 0}) && !ends;
  }
  /// The command line is about to have the keyboard.
  bool opens_field() const { return command_line_.is_open() && !command_line_.listens(); }
  /// Something moves or plays, so the next frame is another picture without any input.
  bool is_busy() const;
  /// Whether the picture moves from state to state; else it changes at once.
  bool motion = true;
  bool light = false;
  /// Zoom of everything, 1 as usual; a window makes its letters larger by it.
  float zoom = 1;
  /// Inside a text: one page, without what leads elsewhere. If it has large buttons, that is its
  /// picture, these, its counters, and what happened.
  bool embedded = false;
  /// From the next motion on the picture stands still at this part of it: for pictures of a moment.
  void hold(float part) { held_ = part; }

 private:
  struct Tab {
    std::unique_ptr<Session> session;
    const Page& page() const { return std::as_const(*session).page(); }  // it need not open
    std::vector<Scenario> films;  // its scenarios, in order; live runs come last
    Stage stage = {};             // the page's picture
    Stage figures = {};           // its counters
    int64_t revision = 0;         // of the session, when it was shown last
    std::string selected = {};    // on the page, then
  };
  static constexpr double kLong = 0.25;  // seconds: work that takes longer has a sign
  static constexpr float kSlowest = 0.25f, kFastest = 4;  // speeds of the player
  struct Pressed {
    int key;
    bool ctrl, shift;
  };
  /// Work that a click or a key has begun, by name: the command's, or that of a walk.
  struct Work {
    std::string name;
    std::function<void()> run;
  };
  Tab& tab() { return tabs_[current_]; }
  const Tab& tab() const { return tabs_[current_]; }
  void work(const std::string& name, std::function<void()> run);
  void time(const Work& work);
  void draw_sign();
  void go_to_tab(size_t index);
  Parts parts() const;
  void show(Stage& stage, Scene scene, bool moves);
  void follow_page(const Room& room, const Room& figures, double seconds);
  void press_play();
  void keys();
  bool slides(const Pressed& pressed);
  void key(const Pressed& pressed);
  void typed(char c);
  void play_film(const Scenario& film);
  void keep();
  void copy();

  // In shell_draw.cpp.
  bool begin(const char* name, const Place& at, bool framed, int flags) const;
  void draw_tabs(const Place& at);
  void draw_page_tabs(float width);
  void draw_tab(size_t index, bool titled);
  void draw_main(const WindowLayout& layout, double seconds);
  void draw_way(const Place& at, bool down);
  void draw_actions(const Place& at, bool has_player);
  void draw_films(const Room& room, bool in_column);
  void draw_counters(const Place& at);
  void draw_more_button();
  void draw_controls();
  void draw_side(const Place& at, bool counts);
  void draw_side_parts(float width, bool counts);
  void draw_log();
  void draw_sentence(const Place& at);
  void draw_player(const Place& at);
  void draw_play_buttons();
  void draw_undo_buttons();
  void draw_reset_button();
  void draw_speed(float width);
  void draw_scrubber(float width);

  // In shell_scroll.cpp. `part`: the picture's size in its place.
  void pan_picture(float part, double seconds);
  void scroll_to_change(float part, double seconds);

  // In shell_panels.cpp.
  void begin_panel(const char* title, bool* open, float width, bool on_the_left) const;
  void draw_list();
  void draw_help();
  void draw_open();

  Outside outside_;
  std::vector<Tab> tabs_;
  size_t current_ = 0;
  ImGuiUi ui_;
  bool help_ = false, opening_ = false, listing_ = false;
  bool shows_more_ = false;  // the rarer controls of a page with large buttons
  bool page_shown_ = false;  // in the frame before
  bool on_phone_ = false, upright_ = false;
  bool is_small_ = false;  // the rows above and below have no room for all controls
  float speed_ = 1, held_ = -1;
  float pan_ = 0;       // pixels, since the last frame
  float scrolled_ = 0;  // 0: its top is seen, 1: its end
  Place panned_ = {};   // what a finger moves, in pixels; empty: all of it can be seen
  Place changed_ = {};  // part of the picture that it scrolls to; empty: it stands still
  bool to_top_ = false, to_side_ = false;  // the page scrolls there
  bool pressed_below_ = false;             // a command is one of a control below the picture
  CommandLine command_line_;
  std::string open_name_;
  std::string notice_;
  std::vector<Pressed> pressed_;
  std::vector<Work> waiting_ = {};                       // for the sign
  std::map<std::string, double> took_{{"live", kLong}};  // seconds, the last time; `live` may load
  std::string digits_;                                   // typed one after the other
  double digit_at_ = 0;                                  // seconds
};

}  // namespace viz
