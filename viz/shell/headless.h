#pragma once

// The shell without a window: frames are laid out, and drawn into memory when a picture is wanted.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "viz/shell/shell.h"

struct ImGuiContext;

namespace viz {

class Headless {
 public:
  /// Borrows the shell. Sizes in pixels.
  Headless(Shell& shell, int width, int height, float scale);
  ~Headless();
  Headless(const Headless&) = delete;
  Headless& operator=(const Headless&) = delete;

  /// Draws a frame `seconds` after the last one. 0 draws motions at their end.
  void frame(double seconds = 0);
  /// Presses a key of Dear ImGui's, with Ctrl or without, or types a character.
  void press_key(int key, bool ctrl = false);
  void type(char c);
  /// Moves the mouse to a control, presses and releases. Throws std::runtime_error if there is no
  /// such control, or it is clipped, covered, or disabled.
  void click(const std::string& name);
  /// Parts of the last frame that cannot be read: parts of the window that scroll up and down,
  /// controls that end beyond their part, and characters that their font does not have.
  std::vector<std::string> crowded();
  /// Parts of the window that reach beyond its edges.
  std::vector<std::string> outside() const;
  /// The last frame as [height, width, 3] bytes.
  std::vector<uint8_t> picture();

  /// Whether each frame is followed by the work that it announces.
  bool works_off = true;

 private:
  void move(float x, float y);
  void press(bool down);

  Shell* shell_;
  ImGuiContext* context_;
  int width_, height_;
  float scale_;
};

/// Writes a PNG. Throws UserError if it cannot be written in full.
void write_png(const std::filesystem::path& file, const std::vector<uint8_t>& rgb, int width,
               int height);

}  // namespace viz
