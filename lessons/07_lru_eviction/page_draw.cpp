#include <fmt/format.h>

#include <algorithm>

#include "page_eviction.h"
#include "page_pool.h"
#include "viz/ui.h"
#include "viz/widgets.h"

namespace lesson07 {

void EvictionPage::draw(viz::Ui& ui) {
  draw_controls(ui);
  draw_queue(ui);
  ui.begin_columns({0.36f, 0.64f});
  draw_pool(ui);
  ui.next_column();
  draw_requests(ui);
  ui.end_columns();
}

void EvictionPage::draw_controls(viz::Ui& ui) {
  const std::string name = asked_.free_name(), words = field(ui, "ask", "WORDS");
  const bool append = settings_.order == FreeOrder::kAppend;
  std::vector<viz::Button> row{
      {"ask", "Ask", viz::Command{.verb = "ask", .args = {name, words}}.text()},
      {"ask salted", "Ask with a salt",
       viz::Command{.verb = "ask", .args = {name, words, "s"}}.text()},
      {"forget", "Forget all", "forget"},
      {"order", append ? "Unhashed first" : "Append all",
       append ? "order unhashed" : "order append"}};
  for (const int blocks : {8, 16, 64}) {
    row.push_back({fmt::format("pool {}", blocks), fmt::format("{} blocks", blocks),
                   fmt::format("resize {} {}", blocks, settings_.block_size)});
  }
  buttons(ui, row);
}

void EvictionPage::draw_queue(viz::Ui& ui) {
  ui.heading("The free queue: least recently used in front (taken next), most recently at the end");
  viz::PiecesView view;
  for (const KvBlock* block : pool_->queue().all()) {
    const std::string text =
        block->is_cached ? vocabulary_.text(pool_->index().tokens(block->id)) : "";
    view.pieces.push_back(
        {.label = fmt::format("{} {}", block->id, text),
         .tooltip = block->is_cached
                        ? fmt::format("block {}: \"{}\"\nfound {}", block->id, text,
                                      kv::count_of(block->num_hits, "time"))
                        : fmt::format("block {}: nothing that can be found", block->id),
         .group = 0});
    if (view.pieces.size() == 64) break;  // the rest comes after them
  }
  if (view.pieces.empty()) {
    ui.hint("Empty: every block is in use.");
  } else {
    view.current = 0;
    viz::pieces(ui, "queue", view);
  }
  if (!last_evicted_.empty()) ui.hint(last_evicted_);
}

void EvictionPage::draw_pool(viz::Ui& ui) {
  const BlockPool& pool = *pool_;
  viz::PoolView view = pool_view(pool);
  for (viz::BlockView& block : view.blocks) {
    if (!pool.block(block.id).is_cached) continue;
    for (const int32_t token : pool.index().tokens(block.id)) {
      block.tokens.push_back(vocabulary_.word(token));
    }
  }
  for (const Asked& request : asked_) {
    const lesson03::BlockTable& table = manager_->table(request.id);
    view.add(request, table.block_ids(), table.num_tokens());
  }
  ui.heading(pool_heading(pool));
  viz::pool_grid(ui, "pool", view);
}

void EvictionPage::draw_requests(viz::Ui& ui) {
  ui.heading("Requests");
  if (asked_.empty()) ui.hint("No request runs. Press Ask; then free it, and ask again.");
  for (const Asked& request : asked_) {
    const lesson03::BlockTable& table = manager_->table(request.id);
    viz::ChainView view{.sequence = request, .links = {}};
    for (int i = 0; i < table.num_blocks(); ++i) {
      const int first = i * table.block_size();
      const int end = std::min(first + table.block_size(), table.num_tokens());
      viz::ChainView::Link link;
      link.block_id = table.block_ids()[static_cast<size_t>(i)];
      link.text = vocabulary_.text({request.tokens.begin() + first, request.tokens.begin() + end});
      const lesson06::CachedBlock* const cached = pool_->index().block(link.block_id);
      link.hash = cached != nullptr ? fmt::format("{:x}", cached->hash) : "not full: no hash";
      link.mark = first < request.num_cached_tokens ? viz::ChainView::Mark::kHit
                                                    : viz::ChainView::Mark::kNone;
      link.tooltip = fmt::format("block {}\n{}\n{}", link.block_id, link.text, link.hash);
      view.links.push_back(std::move(link));
    }
    const std::string& name = request.name;
    viz::chain(ui, name + "/chain", view);
    buttons(ui, {{name + "/more", name + " goes on", fmt::format("more {} \"and so on\"", name)},
                 {name + "/free", "free " + name, "free " + name}});
  }
}

}  // namespace lesson07
