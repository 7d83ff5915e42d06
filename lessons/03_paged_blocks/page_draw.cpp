#include <fmt/format.h>

#include <algorithm>

#include "page_paged.h"
#include "viz/ui.h"

namespace lesson03 {

std::vector<SequenceOnPage> PagedPage::shown() {
  std::vector<SequenceOnPage> all;
  for (const viz::SequenceView& sequence : sequences()) {
    SequenceOnPage& one = all.emplace_back(SequenceOnPage{sequence, table_of(sequence.name), {}});
    if (live_.running()) {
      for (const int32_t token : live_.tokens(static_cast<size_t>(one.hue))) {
        one.texts.push_back(live_.word(token));
      }
    } else {
      for (int token = 0; token < one.table->num_tokens(); ++token) {
        one.texts.push_back(pool_->text(one.name, token).substr(one.name.size()));
      }
    }
  }
  return all;
}

const std::string& PagedPage::in_focus(const std::vector<SequenceOnPage>& all) const {
  const auto has = [&](const std::string& name) {
    return std::ranges::count(all, name, &SequenceOnPage::name) > 0;
  };
  if (pointed_) return pointed_->name;
  if (!change_.grown.empty()) return change_.grown.begin()->first;
  return has(selected()) ? selected() : all.back().name;
}

void PagedPage::draw(viz::Ui& ui) {
  if (live_.running()) return viz::Live::draw_steps(ui, *this);
  const std::vector<SequenceOnPage> all = shown();
  buttons(ui, {{"new", "New sequence", "new " + pool_->all().free_name()}});
  if (!all.empty()) {
    const bool chosen = pool_->all().find(selected()) != nullptr;
    const std::string name = chosen ? selected() : in_focus(all);
    ui.same_line();
    ui.label(name + ":");
    ui.same_line();
    std::vector<viz::Button> row;
    for (const int count : {1, 4, 10, 64}) {
      row.push_back({fmt::format("{}/append {}", name, count), fmt::format("+{}", count),
                     fmt::format("append {} {}", name, count)});
    }
    const int last = std::max(pool_->table(name).num_tokens() - 1, 0);
    row.push_back({name + "/point", "Last token", fmt::format("point {} {}", name, last)});
    row.push_back({name + "/free", "Free", "free " + name});
    buttons(ui, row);
  }
  form(ui, {"resize", "New pool", "resize"});
  form(ui, {"live/start", "Generate two at once", "live"});
}

}  // namespace lesson03
