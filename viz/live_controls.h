#pragma once

// The controls of a live run that all pages have: a prompt, a length, a start; then steps and a
// stop.

#include <string>

#include "viz/ui.h"

namespace viz {

/// What the fields hold: inputs of `live`, no state.
struct LiveFields {
  std::string prompt = "Once upon a time";
  int tokens = 40;
};

/// A button "live/start" that runs `live "PROMPT" TOKENS`.
void draw_live_start(Ui& ui, LiveFields& fields, const std::string& label,
                     const std::string& tooltip);
/// Buttons for `step`, `step 10` and `stop`.
void draw_live_steps(Ui& ui, bool finished);

}  // namespace viz
