#pragma once

// The Ui of pages on top of Dear ImGui, and what tests need to find and click a control by name.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "viz/drawing/palette.h"
#include "viz/ui.h"

struct ImVec2;

namespace viz {

/// Places of the last frame's named controls, in pixels.
struct Probe {
  struct Control {
    float x = 0, y = 0, w = 0, h = 0;
    bool visible = false;  // not clipped away
    bool cut = false;      // its right end is
    bool is_button = false;
    std::string disabled_because = {};  // empty: it is enabled
  };
  std::map<std::string, Control> controls;
  std::string hovered;  // name of the control under the mouse
  std::string focused;  // name of the control that Tab has reached
};

class ImGuiUi : public Ui {
 public:
  /// Begins a frame's notes. `scale`: pixels per point. Buttons and fields are at least `least`
  /// points high.
  void begin_frame(float scale, float least = 0);
  /// Commands that the page's controls queued in this frame.
  std::vector<std::string> take_commands();
  size_t num_commands() const { return commands_.size(); }
  const Probe& probe() const { return probe_; }

  /// For the shell's own controls: the same as button(), with nothing queued.
  bool shell_button(std::string_view name, std::string_view label, std::string_view tooltip,
                    std::string_view disabled_because = {}, float width = 0);
  /// The control that Tab has reached has a frame; Enter presses it. Those of the last frame count.
  bool has_stop(bool backward) const { return stop(backward) < stops_.size(); }
  void move_focus(bool backward);
  void press_focus() { entered_ = probe_.focused; }
  /// The last item is a slider: Tab reaches it.
  void note_slider(std::string_view name, std::string_view tooltip,
                   std::string_view disabled_because = {}) {
    note_item(name, std::string(tooltip), false, disabled_because);
  }
  void divider();
  /// A button over something that is drawn there, in pixels.
  bool button_over(std::string_view name, std::string_view tooltip, float x, float y, float w,
                   float h);
  /// Buttons of this height, in points.
  void begin_large(float height);
  static void end_large();
  /// Small letters, little room: for a narrow column. Buttons are at least `least` points high.
  void begin_small(float least = 0);
  void end_small();

  void run(std::string command) override;
  bool button(std::string_view name, std::string_view label, std::string command,
              std::string_view tooltip, std::string_view disabled_because = {}) override;
  bool number(std::string_view name, std::string_view label, int* value, int min, int max,
              std::string_view tooltip) override;
  bool text(std::string_view name, std::string_view label, std::string* value,
            std::string_view tooltip) override;
  void light() override { lit_ = true; }
  void fill() override { filled_ = true; }
  /// Not on a phone, which has no keys.
  void underline(char letter) override { underlined_ = least_ > 0 ? 0 : letter; }
  void same_line() override;
  void heading(std::string_view text) override;
  void label(std::string_view text) override;
  void hint(std::string_view text) override;
  float scale() const override { return scale_; }
  bool region(std::string_view name, float x, float y, float w, float h) override;
  void tooltip(std::string_view text) override;
  bool mouse_clicked() const override;

 private:
  ImVec2 padding(float x, float y, float least) const;
  size_t stop(bool backward) const;
  bool was_clicked() const;
  void place(float width);
  std::string begin_field(std::string_view name, std::string_view text, float width, float least);
  void note(std::string_view name, Probe::Control control, bool hovered);
  void note_item(std::string_view name, std::string tooltip, bool is_button,
                 std::string_view disabled_because);

  float scale_ = 1, least_ = 0;
  bool same_line_ = false;             // asked for: what comes next decides if it has room
  bool lit_ = false, filled_ = false;  // the next button
  char underlined_ = 0;                // in its label
  std::string rests_on_ = {};          // what the mouse is over, and since when
  double rests_since_ = 0;
  std::string refused_ = {};        // disabled control that the last click was on
  std::vector<std::string> stops_;  // controls that Tab reaches, in the order they are drawn in
  std::string entered_;             // name of the one that Enter presses in this frame
  std::vector<std::string> commands_;
  Probe probe_;
};

/// The window's colours, from the next frame on.
void use_colours(const Theme& theme);

/// The sizes of the style, and the font at this scale: after ImGui::CreateContext(), and when the
/// scale changes, which asks for a new texture.
void apply_theme(float scale);

}  // namespace viz
