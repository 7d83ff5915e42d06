#pragma once

// The picture of the page and its controls. A click queues a command and changes nothing itself.

#include <string>

#include "page_live.h"
#include "page_simulator.h"
#include "page_view.h"
#include "viz/ui.h"

namespace lesson05 {

/// What the fields of the page hold: inputs of commands, no state.
struct PageFields {
  int custom = 100;     // tokens that +N appends
  int num_blocks = 64;  // of the next pool
  int block_size = 16;
  int live_n = 4;
  std::string prompt = "Once upon a time";
};

void draw_simulator(viz::Ui& ui, PageFields& fields, const Simulator& simulator,
                    const PageView& view);
void draw_live(viz::Ui& ui, const LiveSharing& live, const PageView& view);

}  // namespace lesson05
