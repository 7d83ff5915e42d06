#pragma once

// A page's buttons and fields, found by name in a test. All sizes are in points; the scale
// (--scale, or the display's) is applied here.

#include <string>
#include <string_view>

namespace viz {

class Ui {
 public:
  virtual ~Ui() = default;

  /// Queues a command line for the page; it runs when the frame has been drawn.
  virtual void run(std::string command) = 0;

  /// A button. `name` is unique on the page and is how tests and scripts find it ("A/append 10").
  /// If `disabled_because` is not empty the button is disabled and its tooltip says why. Clicking
  /// runs `command`. True if it was clicked in this frame.
  virtual bool button(std::string_view name, std::string_view label, std::string command,
                      std::string_view tooltip, std::string_view disabled_because = {}) = 0;
  /// The next button is the one of its row that holds now: it is lit.
  virtual void light() {}
  /// The next button is the one that the page's state asks for: it is filled.
  virtual void fill() {}
  /// This letter does what the next button does.
  virtual void underline(char) {}
  /// An integer field with - and + that keeps to min..max; true if changed. `value` belongs to the
  /// page and is a mere input (how many tokens "custom" appends), not state.
  virtual bool number(std::string_view name, std::string_view label, int* value, int min, int max,
                      std::string_view tooltip) = 0;
  /// A text field; true if changed.
  virtual bool text(std::string_view name, std::string_view label, std::string* value,
                    std::string_view tooltip) = 0;

  virtual void same_line() = 0;
  virtual void heading(std::string_view text) = 0;
  virtual void label(std::string_view text) = 0;
  virtual void hint(std::string_view text) = 0;  // dim, wrapped

  virtual float scale() const = 0;
  /// Registers the rectangle of something drawn by hand under a name for tests, returns hovered.
  virtual bool region(std::string_view name, float x, float y, float w, float h) = 0;
  virtual void tooltip(std::string_view text) = 0;
  /// The mouse button went down in this frame: together with what is
  /// under the mouse, a click on it.
  virtual bool mouse_clicked() const = 0;
};

}  // namespace viz
