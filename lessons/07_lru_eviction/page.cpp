// The page of lesson 07: the free queue from the least recently used block to the most, what is
// taken and what comes back.

#include "viz/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "block_manager.h"
#include "common/error.h"
#include "viz/ui.h"
#include "viz/widgets.h"

namespace lesson07 {
namespace {

constexpr int kMaxSequences = 8;

struct Settings {
  int num_blocks = 16;
  int block_size = 4;
  FreeOrder order = FreeOrder::kAppend;
};

/// A request in words: each word is a token.
struct Named {
  int seq = 0;
  int hue = 0;
  int num_cached_tokens = 0;
  std::vector<int32_t> tokens;
};

class EvictionPage : public viz::Page {
 public:
  EvictionPage() { reset(); }

  viz::PageInfo info() const override;
  void reset() override { restart({}); }
  std::string apply(const viz::Command& command) override;
  std::optional<int64_t> counter(std::string_view name) const override;
  std::vector<std::string> counter_names() const override;
  void check_invariants() const override { manager_->check(); }
  void draw(viz::Ui& ui) override;

 private:
  void restart(const Settings& settings);
  std::string ask(const std::string& name, const std::string& text, const std::string& salt);
  std::string more(const std::string& name, const std::string& text);
  std::string free(const std::string& name);
  std::string settings(const viz::Command& command);
  std::vector<int32_t> tokens_of(const std::string& text);
  std::string words(std::span<const int32_t> tokens) const;
  Named& find(const std::string& name);
  std::string free_name() const;
  std::string what_happened(const CacheMetrics& before);

  void draw_controls(viz::Ui& ui);
  void draw_queue(viz::Ui& ui);
  void draw_pool(viz::Ui& ui);
  void draw_sequences(viz::Ui& ui);

  Settings settings_;
  std::unique_ptr<BlockManager> manager_;
  std::map<std::string, Named> named_;
  std::map<std::string, int32_t> ids_;
  std::vector<std::string> words_;
  std::string last_evicted_;  // in words, with the reason
  // What the fields hold.
  std::string text_ = "you are a kind guide tell me of paris";
  std::string salt_;
};

viz::PageInfo EvictionPage::info() const {
  return {.lesson = "07",
          .title = "LRU eviction",
          .summary =
              "A freed block keeps what it holds, and waits at the end of the queue. Who "
              "stands in front goes first.",
          .commands = {"ask NAME \"WORDS\" [SALT]  a request: looked up, computed, published",
                       "more NAME \"WORDS\"        its answer goes on",
                       "free NAME                it ends: its blocks go to the queue, tail first",
                       "order append|unhashed    an empty pool; where freed blocks go",
                       "resize BLOCKS SIZE       an empty pool of BLOCKS blocks of SIZE tokens",
                       "forget                   reset the cache, if nobody uses a block"}};
}

void EvictionPage::restart(const Settings& settings) {
  settings_ = settings;
  named_.clear();
  last_evicted_.clear();
  manager_ =
      std::make_unique<BlockManager>(settings.num_blocks, settings.block_size, settings.order);
  manager_->pool().record_events(true);
}

std::string EvictionPage::apply(const viz::Command& command) {
  const std::string& verb = command.verb;
  if (verb == "ask") {
    command.check_count(2, 3);
    return ask(command.word(0, "a name"), command.word(1, "words"),
               command.args.size() > 2 ? command.args[2] : "");
  }
  if (verb == "more") {
    command.check_count(2, 2);
    return more(command.word(0, "a name"), command.word(1, "words"));
  }
  if (verb == "free") {
    command.check_count(1, 1);
    return free(command.word(0, "a name"));
  }
  if (verb == "forget") {
    command.check_count(0, 0);
    if (!manager_->reset_prefix_cache()) {
      kv::user_error("forget: refused, {} blocks are in use", manager_->pool().num_used());
    }
    manager_->pool().take_events();
    return "the cache is empty";
  }
  if (verb == "order" || verb == "resize") return settings(command);
  kv::user_error("{}: no such command; there are ask, more, free, order, resize, forget", verb);
}

std::string EvictionPage::settings(const viz::Command& command) {
  Settings settings = settings_;
  if (command.verb == "order") {
    command.check_count(1, 1);
    const std::string& how = command.word(0, "append or unhashed");
    if (how != "append" && how != "unhashed") {
      kv::user_error("order {}: wanted append or unhashed", how);
    }
    settings.order = how == "append" ? FreeOrder::kAppend : FreeOrder::kUnhashedFirst;
  } else {
    command.check_count(2, 2);
    settings.num_blocks = static_cast<int>(command.number(0, "a number of blocks", 1, 1024));
    settings.block_size = static_cast<int>(command.number(1, "a block size", 1, 64));
    if (!std::has_single_bit(static_cast<unsigned>(settings.block_size))) {
      kv::user_error("block size {}: wanted a power of two", settings.block_size);
    }
  }
  restart(settings);
  return fmt::format("an empty pool: {} blocks of {}", settings.num_blocks, settings.block_size);
}

std::vector<int32_t> EvictionPage::tokens_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<int32_t> tokens;
  for (std::string word; in >> word;) {
    const auto [entry, added] = ids_.emplace(word, static_cast<int32_t>(words_.size()));
    if (added) words_.push_back(word);
    tokens.push_back(entry->second);
  }
  if (tokens.empty()) kv::user_error("wanted at least one word");
  return tokens;
}

std::string EvictionPage::words(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    text += (text.empty() ? "" : " ") + words_[static_cast<size_t>(token)];
  }
  return text;
}

/// "; 2 blocks revived; 1 evicted: block 7, ..." and notes the last victim.
std::string EvictionPage::what_happened(const CacheMetrics& before) {
  const CacheMetrics& now = manager_->pool().metrics();
  std::string story;
  if (const int64_t n = now.num_revived - before.num_revived; n > 0) {
    story += fmt::format("; {} free {} revived", n, n == 1 ? "block" : "blocks");
  }
  std::vector<int32_t> evicted;
  for (const CacheEvent& event : manager_->pool().take_events()) {
    if (event.kind == CacheEvent::Kind::kRemoved) evicted.push_back(event.block_id);
  }
  if (!evicted.empty()) {
    const size_t shown = std::min<size_t>(evicted.size(), 8);
    story += fmt::format("; evicted: {}{}", fmt::join(std::span(evicted).first(shown), ", "),
                         shown < evicted.size() ? " .." : "");
    last_evicted_ = fmt::format(
        "Last evicted: {} {}. It stood in front: of all free blocks it was used longest ago.",
        evicted.size() == 1 ? "block" : "blocks", fmt::join(std::span(evicted).first(shown), ", "));
  }
  return story;
}

std::string EvictionPage::ask(const std::string& name, const std::string& text,
                              const std::string& salt) {
  if (name.empty() || name.size() > 8) kv::user_error("name \"{}\": wanted 1 to 8 letters", name);
  if (named_.contains(name)) kv::user_error("there is a request {} already", name);
  if (static_cast<int>(named_.size()) >= kMaxSequences) {
    kv::user_error("there are {} requests, the most the page shows; free one", kMaxSequences);
  }
  std::vector<int32_t> tokens = tokens_of(text);
  ExtraKeys keys;
  if (!salt.empty()) keys.push_back({ExtraKey::Kind::kSalt, salt});
  const CacheMetrics before = manager_->pool().metrics();
  const auto start = manager_->start(tokens, keys);
  if (!start) {
    kv::user_error("ask {}: too few blocks are free ({}); nothing has changed", name,
                   manager_->pool().num_free());
  }
  manager_->publish(start->seq, tokens);
  int hue = 0;
  const auto taken = [&](int candidate) {
    return std::any_of(named_.begin(), named_.end(),
                       [&](const auto& entry) { return entry.second.hue == candidate; });
  };
  while (taken(hue)) ++hue;
  const size_t count = tokens.size();
  named_[name] = {start->seq, hue, start->num_cached_tokens, std::move(tokens)};
  return fmt::format("{}: {} of {} tokens from the cache", name, start->num_cached_tokens, count) +
         what_happened(before);
}

Named& EvictionPage::find(const std::string& name) {
  const auto found = named_.find(name);
  if (found == named_.end()) kv::user_error("there is no request {}", name);
  return found->second;
}

std::string EvictionPage::more(const std::string& name, const std::string& text) {
  Named& request = find(name);
  const std::vector<int32_t> tokens = tokens_of(text);
  const CacheMetrics before = manager_->pool().metrics();
  const Growth growth{.seq = request.seq, .num_tokens = static_cast<int>(tokens.size())};
  if (!manager_->extend({&growth, 1})) {
    kv::user_error("more {}: too few blocks are free ({}); nothing has changed", name,
                   manager_->pool().num_free());
  }
  request.tokens.insert(request.tokens.end(), tokens.begin(), tokens.end());
  manager_->publish(request.seq, request.tokens);
  return fmt::format("{}: {} more tokens", name, tokens.size()) + what_happened(before);
}

std::string EvictionPage::free(const std::string& name) {
  const Named& request = find(name);
  const auto ids = manager_->table(request.seq).block_ids();
  const std::vector<int32_t> reversed(ids.rbegin(), ids.rend());
  manager_->free_sequence(request.seq);
  named_.erase(name);
  const size_t shown = std::min<size_t>(reversed.size(), 8);
  return fmt::format("free {}: {}{} to the queue, the tail first", name,
                     fmt::join(std::span(reversed).first(shown), ", "),
                     shown < reversed.size() ? " .." : "");
}

std::string EvictionPage::free_name() const {
  char c = 'A';
  while (named_.contains(std::string(1, c))) ++c;
  return std::string(1, c);
}

std::optional<int64_t> EvictionPage::counter(std::string_view name) const {
  const BlockPool& pool = manager_->pool();
  if (name == "total") return pool.num_blocks();
  if (name == "free") return pool.num_free();
  if (name == "used") return pool.num_used();
  if (name == "cached") return pool.num_cached();
  if (name == "revived") return pool.metrics().num_revived;
  if (name == "evicted") return pool.metrics().num_evicted;
  if (name == "asked") return manager_->num_tokens_asked();
  if (name == "found") return manager_->num_tokens_found();
  if (name == "requests") return static_cast<int64_t>(named_.size());
  if (name == "front") return pool.queue().empty() ? -1 : pool.queue().all().front()->id;
  if (name == "back") return pool.queue().empty() ? -1 : pool.queue().all().back()->id;
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto found = named_.find(std::string(name.substr(0, dot)));
  if (found == named_.end()) return std::nullopt;
  if (name.substr(dot) == ".tokens") return static_cast<int64_t>(found->second.tokens.size());
  if (name.substr(dot) == ".cached") return found->second.num_cached_tokens;
  return std::nullopt;
}

std::vector<std::string> EvictionPage::counter_names() const {
  std::vector<std::string> all{"total", "free",  "used",     "cached", "revived", "evicted",
                               "asked", "found", "requests", "front",  "back"};
  for (const auto& [name, request] : named_) {
    all.push_back(name + ".tokens");
    all.push_back(name + ".cached");
  }
  return all;
}

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
  if (static_cast<int>(named_.size()) >= kMaxSequences) why = "the page shows no more requests";
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
  viz::PoolView view{.block_size = pool.block_size(), .sequences = {}, .blocks = {}};
  for (int32_t id = 1; id <= pool.num_blocks(); ++id) {
    viz::BlockView& block = view.blocks.emplace_back();
    block.id = id;
    block.ref_cnt = pool.block(id).ref_cnt;
    if (!pool.block(id).is_cached) continue;
    block.filled = pool.block_size();
    for (const int32_t token : pool.tokens(id)) {
      block.tokens.push_back(words_[static_cast<size_t>(token)]);
    }
  }
  for (const auto& [name, request] : named_) {
    view.sequences.push_back({name, request.hue});
    const BlockTable& table = manager_->table(request.seq);
    for (int i = 0; i < table.num_blocks(); ++i) {
      viz::BlockView& block =
          view.blocks[static_cast<size_t>(table.block_ids()[static_cast<size_t>(i)] - 1)];
      block.owners.push_back(request.hue);
      if (i + 1 == table.num_blocks()) {
        block.filled = std::max(block.filled, table.last_block_fill());
      }
    }
  }
  ui.heading(fmt::format("Pool: {} blocks of {}; grey: free, still cached", pool.num_blocks(),
                         pool.block_size()));
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

}  // namespace

std::unique_ptr<viz::Page> make_page(const viz::PageContext&) {
  return std::make_unique<EvictionPage>();
}

}  // namespace lesson07
