// The page of lesson 06: chains of hashes, hits, and what a hash that collides does to them.

#include "viz/page.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "common/base/error.h"
#include "page_cache.h"
#include "viz/ui.h"
#include "viz/widgets.h"

namespace lesson06 {
namespace {

class PrefixPage : public viz::Page {
 public:
  PrefixPage() { reset(); }

  viz::PageInfo info() const override;
  void reset() override { cache_ = std::make_unique<WordCache>(WordCache::Settings{}); }
  std::string apply(const viz::Command& command) override;
  std::optional<int64_t> counter(std::string_view name) const override;
  std::vector<std::string> counter_names() const override;
  void check_invariants() const override { cache_->check(); }
  void draw(viz::Ui& ui) override;

 private:
  std::string settings(const viz::Command& command);
  void draw_controls(viz::Ui& ui);
  void draw_pool(viz::Ui& ui);
  void draw_chain(viz::Ui& ui, const std::string& name);

  std::unique_ptr<WordCache> cache_;
  // What the fields hold.
  std::string text_ = "you are a helpful assistant who answers briefly what is a page";
  int bits_ = 3;
};

viz::PageInfo PrefixPage::info() const {
  return {.lesson = "06",
          .title = "Prefix hashing",
          .summary =
              "A block's name is a hash of its tokens and of its parent's name. Equal names "
              "are candidates, and no more.",
          .commands = {"ask NAME \"WORDS\"        a request: looked up, computed, published",
                       "free NAME               the request ends; its full blocks can be found",
                       "bits N                  an empty pool whose hash has N bits, 0 to 64",
                       "check exact|hash        an empty pool that compares, or trusts the hash",
                       "resize BLOCKS SIZE      an empty pool of BLOCKS blocks of SIZE tokens",
                       "forge NAME NAME2        two requests whose second blocks have one hash"}};
}

std::string PrefixPage::apply(const viz::Command& command) {
  const std::string& verb = command.verb;
  if (verb == "ask") {
    command.check_count(2, 2);
    return cache_->ask(command.word(0, "a name"), command.word(1, "words"));
  }
  if (verb == "free") {
    command.check_count(1, 1);
    return cache_->free(command.word(0, "a name"));
  }
  if (verb == "bits" || verb == "check" || verb == "resize") return settings(command);
  if (verb == "forge") {
    command.check_count(2, 2);
    if (cache_->settings().block_size != 16) {
      kv::user_error("forge: the pair was made for blocks of 16; `resize 24 16` first");
    }
    if (static_cast<int>(cache_->requests().size()) + 2 > WordCache::kMaxRequests) {
      kv::user_error("forge: there are too many requests; free some");
    }
    if (command.word(0, "a name") == command.word(1, "a name") ||
        cache_->requests().contains(command.args[1]) || command.args[1].empty() ||
        command.args[1].size() > 8) {
      kv::user_error("forge: wanted two new names of 1 to 8 characters");
    }
    if (cache_->manager().pool().num_free() < 6) {
      kv::user_error("forge: needs 6 free blocks, {} are free",
                     cache_->manager().pool().num_free());
    }
    const std::string first = cache_->ask(command.args[0], forged_prompt(false));
    return first + "; " + cache_->ask(command.args[1], forged_prompt(true));
  }
  kv::user_error("{}: no such command; there are ask, free, bits, check, resize, forge", verb);
}

std::string PrefixPage::settings(const viz::Command& command) {
  WordCache::Settings settings = cache_->settings();
  if (command.verb == "bits") {
    command.check_count(1, 1);
    settings.bits = static_cast<int>(command.number(0, "bits", 0, 64));
  } else if (command.verb == "check") {
    command.check_count(1, 1);
    const std::string& how = command.word(0, "exact or hash");
    if (how != "exact" && how != "hash") kv::user_error("check {}: wanted exact or hash", how);
    settings.exact = how == "exact";
  } else {
    command.check_count(2, 2);
    settings.num_blocks =
        static_cast<int>(command.number(0, "a number of blocks", 1, WordCache::kMaxBlocks));
    settings.block_size = static_cast<int>(command.number(1, "a block size", 1, 64));
  }
  cache_ = std::make_unique<WordCache>(settings);
  return fmt::format("an empty pool: {} blocks of {}, a hash of {} bits, {}", settings.num_blocks,
                     settings.block_size, settings.bits,
                     settings.exact ? "tokens and parent compared" : "the hash trusted");
}

std::optional<int64_t> PrefixPage::counter(std::string_view name) const {
  const BlockManager& manager = cache_->manager();
  if (name == "total") return manager.pool().num_blocks();
  if (name == "free") return manager.pool().num_free();
  if (name == "used") return manager.pool().num_used();
  if (name == "published") return static_cast<int64_t>(manager.index().size());
  if (name == "asked") return manager.num_tokens_asked();
  if (name == "found") return manager.num_tokens_found();
  if (name == "refused") return manager.index().num_refused();
  if (name == "wrong") return cache_->num_wrong();
  if (name == "bits") return cache_->settings().bits;
  if (name == "exact") return cache_->settings().exact ? 1 : 0;
  if (name == "requests") return static_cast<int64_t>(cache_->requests().size());
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto found = cache_->requests().find(std::string(name.substr(0, dot)));
  if (found == cache_->requests().end()) return std::nullopt;
  if (name.substr(dot) == ".tokens") return static_cast<int64_t>(found->second.tokens.size());
  if (name.substr(dot) == ".cached") return found->second.num_cached_tokens;
  return std::nullopt;
}

std::vector<std::string> PrefixPage::counter_names() const {
  std::vector<std::string> all{"total",   "free",  "used", "published", "asked",   "found",
                               "refused", "wrong", "bits", "exact",     "requests"};
  for (const auto& [name, request] : cache_->requests()) {
    all.push_back(name + ".tokens");
    all.push_back(name + ".cached");
  }
  return all;
}

void PrefixPage::draw(viz::Ui& ui) {
  const auto count = [&](const char* name) { return fmt::format("{}", *counter(name)); };
  const int64_t asked = *counter("asked");
  viz::counters(
      ui, "counters",
      {{"free", count("free") + " / " + count("total"), "Blocks that no table holds."},
       {"can be found", count("published"), "Full blocks whose K and V are written, free or not."},
       {"from the cache", count("found") + " / " + count("asked"),
        "Tokens that were not computed, of all that were asked for."},
       {"hit rate",
        asked > 0 ? fmt::format("{:.0f} %", 100.0 * static_cast<double>(*counter("found")) /
                                                static_cast<double>(asked))
                  : "-",
        "The same as a share."},
       {"refused", count("refused"), "Candidates with the right hash and another content."},
       {"wrong", count("wrong"), "Blocks in a table that hold K and V of another prefix."}});
  draw_controls(ui);
  ui.begin_columns({0.36f, 0.64f});
  draw_pool(ui);
  ui.next_column();
  ui.heading("Chains: each hash covers its tokens and the hash before it");
  if (cache_->requests().empty())
    ui.hint("No request yet. Press Ask, change the words, ask again.");
  for (const std::string& name : cache_->names()) draw_chain(ui, name);
  ui.end_columns();
}

void PrefixPage::draw_controls(viz::Ui& ui) {
  ui.text("words", "words", &text_, "A request: each word is a token.");
  ui.same_line();
  const std::string name = cache_->free_name();
  ui.button("ask", "Ask", viz::Command{.verb = "ask", .args = {name, text_}}.text(),
            "Look the beginning up, compute the rest, publish what has become full.",
            text_.find_first_not_of(' ') == std::string::npos ? "there are no words"
                                                              : cache_->why_not_ask());
  ui.number("bits", "bits", &bits_, 0, 64, "Of the hash of the next pool.");
  ui.same_line();
  ui.button("set bits", "Weaken the hash", fmt::format("bits {}", bits_),
            "An empty pool with so few bits of hash: collisions at once, and no wrong hit.");
  ui.same_line();
  const bool exact = cache_->settings().exact;
  ui.button("check", exact ? "Trust the hash" : "Compare again",
            exact ? "check hash" : "check exact",
            exact ? "An empty pool that takes an equal hash for equal content."
                  : "An empty pool that compares tokens and parents.");
  ui.same_line();
  if (cache_->settings().block_size != 16) {
    ui.button("blocks of 16", "Blocks of 16", "resize 24 16", "The forged pair needs them.");
  } else {
    std::string second = name;
    do {
      ++second[0];
    } while (cache_->requests().contains(second));
    const bool room = static_cast<int>(cache_->requests().size()) + 2 <= WordCache::kMaxRequests &&
                      cache_->manager().pool().num_free() >= 6;
    ui.button("forge", "Forge", fmt::format("forge {} {}", name, second),
              "Two requests that differ in their second block. The hashes of these are equal.",
              room ? "" : "there is no room for two more requests");
  }
}

void PrefixPage::draw_pool(viz::Ui& ui) {
  const BlockManager& manager = cache_->manager();
  viz::PoolView view{.block_size = manager.block_size(), .sequences = {}, .blocks = {}};
  for (int32_t id = 0; id < manager.pool().num_blocks(); ++id) {
    viz::BlockView& block = view.blocks.emplace_back();
    block.id = id;
    block.ref_cnt = manager.pool().ref_cnt(id);
    const BlockContent* const content = manager.index().content(id);
    if (content == nullptr) continue;
    block.badge = fmt::format("#{:03x}", content->hash & 0xFFF);
    block.filled = manager.block_size();
    for (const int32_t token : content->tokens) block.tokens.push_back(cache_->word(token));
  }
  for (const std::string& name : cache_->names()) {
    const WordCache::Request& request = cache_->requests().at(name);
    view.sequences.push_back({name, request.hue});
    const BlockTable& table = manager.table(request.seq);
    for (int i = 0; i < table.num_blocks(); ++i) {
      viz::BlockView& block =
          view.blocks[static_cast<size_t>(table.block_ids()[static_cast<size_t>(i)])];
      block.owners.push_back(request.hue);
      if (i + 1 == table.num_blocks())
        block.filled = std::max(block.filled, table.last_block_fill());
    }
  }
  ui.heading(fmt::format("Pool: {} blocks of {}; # is the end of a hash",
                         manager.pool().num_blocks(), manager.block_size()));
  viz::pool_grid(ui, "pool", view);
}

void PrefixPage::draw_chain(viz::Ui& ui, const std::string& name) {
  const WordCache::Request& request = cache_->requests().at(name);
  const BlockManager& manager = cache_->manager();
  const BlockTable& table = manager.table(request.seq);
  const auto hashes =
      hash_chain(request.tokens, table.block_size(), narrow_hasher(cache_->settings().bits));
  viz::ChainView view{.sequence = {name, request.hue}, .links = {}};
  for (int i = 0; i < table.num_blocks(); ++i) {
    const auto index = static_cast<size_t>(i);
    viz::ChainView::Link link;
    link.block_id = table.block_ids()[index];
    const int first = i * table.block_size();
    const int end = std::min(first + table.block_size(), static_cast<int>(request.tokens.size()));
    for (int t = first; t < end; ++t) {
      link.text += (t > first ? " " : "") + cache_->word(request.tokens[static_cast<size_t>(t)]);
    }
    link.hash = index < hashes.size() ? fmt::format("{:x}", hashes[index]) : "not full: no hash";
    link.mark = cache_->is_wrong(request, i)        ? viz::ChainView::Mark::kWrong
                : first < request.num_cached_tokens ? viz::ChainView::Mark::kHit
                                                    : viz::ChainView::Mark::kNone;
    link.tooltip = fmt::format("block {}\n{}\n{}", link.block_id, link.text, link.hash);
    if (link.mark == viz::ChainView::Mark::kWrong) {
      link.tooltip += "\nits K and V were computed for another prefix";
    } else if (link.mark == viz::ChainView::Mark::kHit) {
      link.tooltip += "\nfound in the cache";
    }
    view.links.push_back(std::move(link));
  }
  viz::chain(ui, name + "/chain", view);
  ui.button(name + "/free", "free " + name, "free " + name,
            "The request ends. Its full blocks can be found until they are overwritten.");
}

}  // namespace

std::unique_ptr<viz::Page> make_page(const viz::PageContext&) {
  return std::make_unique<PrefixPage>();
}

}  // namespace lesson06
