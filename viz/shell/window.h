#pragma once

#include "viz/shell/shell.h"

namespace viz {

struct WindowOptions {
  int width = 1440, height = 900;  // in points
  float scale = 0;                 // pixels per point; 0: the display's
  int frames = 0;                  // close after this number; 0 waits for the user to close it
  bool rects = false;              // print where the controls are, for a script that clicks
};

/// Opens a window and runs the shell in it until it is closed or Ctrl-C. Throws UserError, with
/// what to do instead, if there is no display.
void run_window(Shell& shell, const WindowOptions& options);

}  // namespace viz
