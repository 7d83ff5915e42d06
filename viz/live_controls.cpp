#include "viz/live_controls.h"

#include "viz/scenario.h"

namespace viz {

void draw_live_start(Ui& ui, LiveFields& fields, const std::string& label,
                     const std::string& tooltip) {
  ui.text("live/prompt", "prompt", &fields.prompt, "What the model is to continue.");
  ui.number("live/tokens", "tokens", &fields.tokens, 1, 400, "How many tokens it generates.");
  ui.same_line();
  const Command command{.verb = "live", .args = {fields.prompt, std::to_string(fields.tokens)}};
  ui.button("live/start", label, command.text(), tooltip,
            fields.prompt.empty() ? "the prompt is empty" : "");
}

void draw_live_steps(Ui& ui, bool finished) {
  const char* ended = finished ? "the run has ended" : "";
  ui.button("live/step", "Step", "step", "One token. Play and the Right arrow do this, too.",
            ended);
  ui.same_line();
  ui.button("live/step 10", "Step 10", "step 10", "Ten tokens.", ended);
  ui.same_line();
  ui.button("live/stop", "Stop", "stop", "End the run.");
}

}  // namespace viz
