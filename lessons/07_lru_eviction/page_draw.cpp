#include <fmt/format.h>

#include <algorithm>

#include "page_eviction.h"
#include "page_pool.h"
#include "viz/ui.h"
#include "viz/widgets.h"

namespace lesson07 {

void EvictionPage::draw(viz::Ui& ui) {
  const auto count = [&](const char* name) { return fmt::format("{}", *counter(name)); };
  const int64_t asked = *counter("asked");
  viz::counters(
      ui, "counters",
      {{"free", count("free") + " / " + count("total"), "Blocks in the queue."},
       {"used", count("used"), "Blocks in a table."},
       {"cached", count("cached"), "Blocks that can be found, used or free."},
       {"revived", count("revived"), "Free blocks that a hit took out of the queue."},
       {"evicted", count("evicted"), "Blocks that lost what they held, as room was needed."},
       {"hit rate",
        asked > 0 ? fmt::format("{:.0f} %", 100.0 * static_cast<double>(*counter("found")) /
                                                static_cast<double>(asked))
                  : "-",
        "Tokens from the cache, as a share of those asked for."}});
  draw_controls(ui);
  draw_queue(ui);
  ui.begin_columns({0.36f, 0.64f});
  draw_pool(ui);
  ui.next_column();
  draw_sequences(ui);
  ui.end_columns();
}

void EvictionPage::draw_controls(viz::Ui& ui) {
  ui.text("words", "words", &text_, "A request, or more of one: each word is a token.");
  const bool blank = text_.find_first_not_of(' ') == std::string::npos;
  std::string why = blank ? "there are no words" : "";
  if (named_.size() >= kMaxNamed) why = "the page shows no more requests";
  ui.button("ask", "Ask", viz::Command{.verb = "ask", .args = {free_name(), text_}}.text(),
            "Look the beginning up, compute the rest, publish.", why);
  ui.same_line();
  ui.button("ask salted", "Ask with a salt",
            viz::Command{.verb = "ask", .args = {free_name(), text_, "s"}}.text(),
            "The same words under another key: they meet only their own kind.", why);
  ui.same_line();
  ui.button("forget", "Forget all", "forget", "Reset the cache.",
            manager_->pool().num_used() > 0 ? "blocks are in use" : "");
  ui.same_line();
  const bool append = settings_.order == FreeOrder::kAppend;
  ui.button("order", append ? "Unhashed first" : "Append all",
            append ? "order unhashed" : "order append",
            append ? "An empty pool that puts blocks nobody can find in front."
                   : "An empty pool that appends every freed block.");
  for (const int blocks : {8, 16, 64}) {
    ui.same_line();
    ui.button(fmt::format("pool {}", blocks), fmt::format("{} blocks", blocks),
              fmt::format("resize {} {}", blocks, settings_.block_size),
              "An empty pool of this size.");
  }
}

void EvictionPage::draw_queue(viz::Ui& ui) {
  ui.heading("The free queue: least recently used in front (taken next), most recently at the end");
  viz::PiecesView view;
  for (const KvBlock* block : manager_->pool().queue().all()) {
    const std::string text = block->is_cached ? words(manager_->pool().tokens(block->id)) : "";
    view.pieces.push_back(
        {.label = fmt::format("{} {}", block->id, text),
         .tooltip =
             block->is_cached
                 ? fmt::format("block {}: \"{}\"\ncached at tick {}, last used at {}, {} hits",
                               block->id, text, block->cached_at, block->last_used_at,
                               block->num_hits)
                 : fmt::format("block {}: nothing that can be found", block->id),
         .group = 0});
    if (view.pieces.size() == 64) break;  // the rest stands behind
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
  const BlockPool& pool = manager_->pool();
  viz::PoolView view = pool_view(pool);
  for (viz::BlockView& block : view.blocks) {
    for (const int32_t token : pool.tokens(block.id)) {
      block.tokens.push_back(words_[static_cast<size_t>(token)]);
    }
  }
  for (const auto& [name, request] : named_) {
    view.sequences.push_back({name, request.hue});
    add_owner(view, manager_->table(request.seq), request.hue);
  }
  ui.heading(pool_heading(pool));
  viz::pool_grid(ui, "pool", view);
}

void EvictionPage::draw_sequences(viz::Ui& ui) {
  ui.heading("Requests");
  if (named_.empty()) ui.hint("No request runs. Press Ask; then free it, and ask again.");
  for (const auto& [name, request] : named_) {
    const BlockTable& table = manager_->table(request.seq);
    viz::ChainView view{.sequence = {name, request.hue}, .links = {}};
    for (int i = 0; i < table.num_blocks(); ++i) {
      const int first = i * table.block_size();
      const int end = std::min(first + table.block_size(), table.num_tokens());
      viz::ChainView::Link link;
      link.block_id = table.block_ids()[static_cast<size_t>(i)];
      link.text = words(std::span(request.tokens)
                            .subspan(static_cast<size_t>(first), static_cast<size_t>(end - first)));
      const auto& block = manager_->pool().block(link.block_id);
      link.hash = block.is_cached ? fmt::format("{:x}", block.hash) : "not full: no hash";
      link.mark = first < request.num_cached_tokens ? viz::ChainView::Mark::kHit
                                                    : viz::ChainView::Mark::kNone;
      link.tooltip = fmt::format("block {}\n{}\n{}", link.block_id, link.text, link.hash);
      view.links.push_back(std::move(link));
    }
    viz::chain(ui, name + "/chain", view);
    ui.button(name + "/more", name + " goes on", fmt::format("more {} \"and so on\"", name),
              "Three more tokens.",
              manager_->pool().num_free() == 0 && table.last_block_fill() + 3 > table.block_size()
                  ? "no block is free"
                  : "");
    ui.same_line();
    ui.button(name + "/free", "free " + name, "free " + name,
              "It ends. What its full blocks hold stays, as long as nobody needs the room.");
  }
}

}  // namespace lesson07
