#include <fmt/format.h>

#include <utility>

#include "page_sharing.h"
#include "viz/ui.h"

namespace lesson05 {

void SharingPage::draw(viz::Ui& ui) { live_.running() ? draw_live(ui) : draw_simulator(ui); }

std::vector<viz::Button> SharingPage::append_buttons(const std::string& who) const {
  std::vector<viz::Button> row;
  for (const auto& [id, count] : {std::pair<std::string, std::string>("1", "1"),
                                  {"4", "4"},
                                  {"16", "16"},
                                  {"custom", custom_}}) {
    row.push_back({who + "/append " + id, "+" + count, "append " + who + " " + count});
  }
  return row;
}

void SharingPage::draw_simulator(viz::Ui& ui) {
  buttons(ui, {{"new", "New sequence", "new " + simulator_->all().free_name()}});
  if (!simulator_->all().empty()) {  // else there is room for what begins anew
    if (const std::string name = chosen(); simulator_->all().find(name)) draw_sequence(ui, name);
    ui.heading("All sequences");
    buttons(ui, append_buttons("all"));
    custom_ = field(ui, "append", "TOKENS");
    ui.hint("Another pool, or the engine: when there is no sequence (Reset).");
    return;
  }
  ui.heading("Pool");
  form(ui, {"resize", "New pool", "resize"});
  ui.heading("Watch the engine");
  const std::string prompt = field(ui, "live", "PROMPT"), n = field(ui, "live", "N");
  buttons(ui, {{"live/samples", "Draw samples",
                viz::Command{.verb = "live", .args = {n, prompt}}.text()},
               {"live/beams", "Beam search",
                viz::Command{.verb = "live", .args = {"beams", n, prompt}}.text()}});
}

/// For the selected one; a click on a table selects it.
void SharingPage::draw_sequence(viz::Ui& ui, const std::string& name) {
  ui.heading("Sequence " + name);
  buttons(ui, append_buttons(name));
  std::vector<viz::Button> row;
  for (const size_t count : {size_t{1}, size_t{3}}) {
    row.push_back(
        {fmt::format("{}/fork {}", name, count), count == 1 ? "fork" : "fork x3",
         fmt::format("fork {} {}", name, fmt::join(simulator_->all().free_names(count), " "))});
  }
  row.push_back({name + "/free", "free", "free " + name});
  buttons(ui, row);
  form(ui, {name + "/write", "write", "write " + name});
}

void SharingPage::draw_live(viz::Ui& ui) {
  const LiveOptions& options = live_.options();
  const std::string what =
      options.beams ? "One more token of every beam." : "Tokens of one sample each, in turn.";
  buttons(ui, {{"live/step 1", "Step", "step", what},
               {"live/step 4", "Step x4", "step 4", what},
               {"live/stop", "Stop", "stop"}});
  ui.hint(fmt::format("{} \"{}\". {}.", options.beams ? "Beam search from" : "Samples of",
                      options.prompt, live_.told()));
}

}  // namespace lesson05
