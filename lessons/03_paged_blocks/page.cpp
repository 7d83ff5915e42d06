// The page of lesson 03: a pool of blocks, a table for each sequence, and the way from a token to
// its slot.

#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <optional>
#include <stdexcept>

#include "common/error.h"
#include "engine.h"
#include "page_sequences.h"
#include "viz/live.h"
#include "viz/live_controls.h"
#include "viz/ui.h"
#include "viz/widgets.h"

namespace lesson03 {
namespace {

constexpr int kNumBlocks = 32;
constexpr int kBlockSize = 16;
constexpr int kMostChips = 128;

/// A sequence as it is shown: of the simulator, or of the running engine.
struct Shown {
  std::string name;
  int hue = 0;
  const BlockTable* table = nullptr;
  std::vector<std::string> texts;  // of the tokens known; those beyond the table have no slot
};

/// A token that somebody points at.
struct Pointed {
  std::string name;
  int token = 0;
};

class PagedPage : public viz::Page {
 public:
  explicit PagedPage(const viz::PageContext& context) : model_(context) { reset(); }

  viz::PageInfo info() const override;
  void reset() override;
  std::string apply(const viz::Command& command) override;
  std::optional<int64_t> counter(std::string_view name) const override;
  std::vector<std::string> counter_names() const override;
  std::string next_step() const override { return live_ && !live_->finished() ? "step" : ""; }
  void check_invariants() const override;
  void draw(viz::Ui& ui) override;

 private:
  std::string simulate(const viz::Command& command);
  std::string start(const viz::Command& command);
  std::string point(const viz::Command& command);
  std::string story();
  std::vector<std::string> names() const;
  /// Null: there is no such sequence (any more).
  const BlockTable* table_of(const std::string& name) const;
  const BlockManager& manager() const { return live_ ? *engine_->manager() : pool_->manager(); }
  std::vector<Shown> shown();

  void draw_simulator_controls(viz::Ui& ui);
  void draw_translation(viz::Ui& ui, const std::vector<Shown>& all);
  void draw_pool(viz::Ui& ui, const std::vector<Shown>& all);
  void draw_sequence(viz::Ui& ui, const Shown& sequence);
  void draw_buttons(viz::Ui& ui, const std::string& name);
  /// What the translation is about: what the mouse is over, else what was pointed at.
  std::optional<Pointed> current() const;

  viz::LiveModel model_;
  std::unique_ptr<NamedSequences> pool_;
  std::unique_ptr<PagedEngine> engine_;
  std::unique_ptr<viz::LiveRequests> live_;  // borrows the engine
  std::optional<Pointed> pointed_;
  // Of the picture alone: the token under the mouse, the one that is shown, what the fields hold.
  std::optional<Pointed> hovered_;
  std::optional<Pointed> seen_;
  int new_blocks_ = kNumBlocks, new_size_ = kBlockSize;
  viz::LiveFields live_fields_{.prompt = "Once upon a time there was a little dog", .tokens = 40};
};

viz::PageInfo PagedPage::info() const {
  return {
      .lesson = "03",
      .title = "Paged blocks",
      .summary = "A token's place: its block by division and the table, its offset by the rest.",
      .commands = {"new NAME                 a sequence without tokens",
                   "append NAME N            N more tokens",
                   "free NAME                drop the sequence: its blocks go back",
                   "point NAME TOKEN         show where the token lies",
                   "resize BLOCKS SIZE       an empty pool of BLOCKS blocks of SIZE tokens",
                   "live \"PROMPT\" [TOKENS]   watch the engine: the prompt, and its first half",
                   "step [N]                 N more tokens of the live run",
                   "stop                     back from the live run"}};
}

void PagedPage::reset() {
  live_.reset();
  engine_.reset();
  pointed_.reset();
  hovered_.reset();
  pool_ = std::make_unique<NamedSequences>(kNumBlocks, kBlockSize);
}

std::string PagedPage::apply(const viz::Command& command) {
  const std::string& verb = command.verb;
  if (verb == "live") return start(command);
  if (verb == "point") return point(command);
  if (verb == "step") {
    viz::run_steps(live_.get(), command);
    return story();
  }
  if (verb == "stop") {
    command.check_count(0, 0);
    if (!live_) kv::user_error("stop: there is no live run");
    live_.reset();
    engine_.reset();
    pointed_.reset();
    return "the live run is over; the pool is as it was";
  }
  return simulate(command);
}

std::string PagedPage::simulate(const viz::Command& command) {
  const std::string& verb = command.verb;
  if (verb != "new" && verb != "append" && verb != "free" && verb != "resize") {
    kv::user_error(
        "{}: no such command; there are new, append, free, point, resize, live, step, stop", verb);
  }
  if (live_) kv::user_error("{}: the engine is running; `stop` leads back", verb);
  const bool two = verb == "append" || verb == "resize";
  command.check_count(two ? 2 : 1, two ? 2 : 1);
  if (verb == "resize") {
    const auto blocks = command.number(0, "a number of blocks", 1, NamedSequences::kMaxBlocks);
    const auto size = command.number(1, "a block size", 1, 256);
    pool_ = std::make_unique<NamedSequences>(static_cast<int>(blocks), static_cast<int>(size));
    pointed_.reset();
    return fmt::format("a pool of {} blocks of {} tokens, all free", blocks, size);
  }
  const std::string& name = command.word(0, "the name of a sequence");
  if (verb == "new") return pool_->add(name);
  if (verb == "append") {
    return pool_->append(name,
                         static_cast<int>(command.number(1, "a number of tokens", 1, 1 << 20)));
  }
  const std::string story = pool_->free(name);
  if (pointed_ && pointed_->name == name) pointed_.reset();
  return story;
}

std::string PagedPage::point(const viz::Command& command) {
  command.check_count(2, 2);
  const std::string& name = command.word(0, "the name of a sequence");
  const BlockTable* table = table_of(name);
  if (table == nullptr) kv::user_error("point: there is no sequence {}", name);
  if (table->num_tokens() == 0) kv::user_error("point: {} has no token yet", name);
  const auto token = static_cast<int>(command.number(1, "a token", 0, table->num_tokens() - 1));
  pointed_ = {name, token};
  const Place place = table->place(token);
  return fmt::format("token {} of {}: block {}, offset {}, slot {}", token, name, place.block_id,
                     place.offset, table->slot(token));
}

std::string PagedPage::start(const viz::Command& command) {
  command.check_count(1, 2);
  if (live_) kv::user_error("live: the engine is running already; `stop` ends it");
  const auto tokens = static_cast<int>(
      command.args.size() < 2 ? 40 : command.number(1, "a number of tokens", 1, 400));
  std::vector<kv::Request> requests{model_.request(command.word(0, "a prompt"), tokens)};
  requests.push_back(requests[0]);
  requests[1].prompt.resize((requests[0].prompt.size() + 1) / 2);
  requests[1].max_tokens = (tokens + 1) / 2;
  const kv::EngineOptions options{.block_size = pool_->manager().block_size(),
                                  .num_blocks = pool_->manager().pool().num_blocks()};
  std::unique_ptr<PagedEngine> engine = make_paged_engine(model_.model(), options);
  live_ = std::make_unique<viz::LiveRequests>(*engine, std::move(requests));
  engine_ = std::move(engine);
  pointed_.reset();
  return story();
}

std::string PagedPage::story() {
  const BlockPool& pool = manager().pool();
  if (live_->finished()) {
    pointed_.reset();
    return fmt::format("the run has ended: {} of {} blocks are free", pool.num_free(),
                       pool.num_blocks());
  }
  if (pointed_ && table_of(pointed_->name) == nullptr) pointed_.reset();
  const viz::LiveRun::Token& token = live_->generated().back();
  return fmt::format("request {} draws \"{}\"; {} blocks in use for {} tokens", token.request,
                     viz::token_text(model_.tokenizer(), token.id), pool.num_used(),
                     manager().num_tokens());
}

std::vector<std::string> PagedPage::names() const {
  if (!live_) return pool_->names();
  std::vector<std::string> names;
  for (size_t i = 0; i < live_->size(); ++i) {
    if (engine_->sequence_of(i) >= 0) names.push_back(fmt::format("R{}", i));
  }
  return names;
}

const BlockTable* PagedPage::table_of(const std::string& name) const {
  const std::vector<std::string> known = names();
  if (std::find(known.begin(), known.end(), name) == known.end()) return nullptr;
  if (!live_) return &pool_->table(name);
  return &manager().table(engine_->sequence_of(static_cast<size_t>(name[1] - '0')));
}

std::optional<int64_t> PagedPage::counter(std::string_view name) const {
  const BlockPool& pool = manager().pool();
  if (name == "total") return pool.num_blocks();
  if (name == "free") return pool.num_free();
  if (name == "used") return pool.num_used();
  if (name == "block_size") return manager().block_size();
  if (name == "sequences") return static_cast<int64_t>(names().size());
  if (name == "tokens") return manager().num_tokens();
  if (name == "empty_slots") {
    return int64_t{pool.num_used()} * manager().block_size() - manager().num_tokens();
  }
  if (name == "live") return live_ ? 1 : 0;
  if (name == "generated") return live_ ? static_cast<int64_t>(live_->generated().size()) : 0;
  if (name.rfind("point.", 0) == 0) {
    if (!pointed_) return -1;
    const BlockTable& table = *table_of(pointed_->name);
    if (name == "point.block") return table.place(pointed_->token).block_id;
    if (name == "point.offset") return table.place(pointed_->token).offset;
    if (name == "point.slot") return table.slot(pointed_->token);
    return std::nullopt;
  }
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const BlockTable* table = table_of(std::string(name.substr(0, dot)));
  if (table == nullptr) return std::nullopt;
  if (name.substr(dot) == ".tokens") return table->num_tokens();
  if (name.substr(dot) == ".blocks") return table->num_blocks();
  return std::nullopt;
}

std::vector<std::string> PagedPage::counter_names() const {
  std::vector<std::string> all{"total",       "free",        "used",         "block_size",
                               "sequences",   "tokens",      "live",         "generated",
                               "empty_slots", "point.block", "point.offset", "point.slot"};
  for (const std::string& name : names()) {
    all.push_back(name + ".tokens");
    all.push_back(name + ".blocks");
  }
  return all;
}

void PagedPage::check_invariants() const {
  pool_->check();
  if (live_) manager().check();
  if (pointed_) {
    const BlockTable* table = table_of(pointed_->name);
    if (table == nullptr || pointed_->token >= table->num_tokens()) {
      throw std::logic_error("the page points at a token that is not there");
    }
  }
}

std::vector<Shown> PagedPage::shown() {
  std::vector<Shown> all;
  for (const std::string& name : names()) {
    Shown sequence{.name = name, .hue = 0, .table = table_of(name), .texts = {}};
    if (!live_) {
      sequence.hue = pool_->find(name).hue;
      for (int token = 0; token < sequence.table->num_tokens(); ++token) {
        sequence.texts.push_back(pool_->text(name, token));
      }
    } else {
      sequence.hue = name[1] - '0';
      for (const int32_t token : live_->tokens(static_cast<size_t>(sequence.hue))) {
        sequence.texts.push_back(viz::token_text(model_.tokenizer(), token));
      }
    }
    all.push_back(std::move(sequence));
  }
  return all;
}

std::optional<Pointed> PagedPage::current() const {
  for (const auto& candidate : {hovered_, pointed_}) {
    if (!candidate) continue;
    const BlockTable* table = table_of(candidate->name);
    if (table != nullptr && candidate->token < table->num_tokens()) return candidate;
  }
  return std::nullopt;
}

void PagedPage::draw(viz::Ui& ui) {
  const auto count = [&](const char* name) { return fmt::format("{}", *counter(name)); };
  const int64_t slots = *counter("tokens") + *counter("empty_slots");
  const double waste =
      slots > 0 ? static_cast<double>(*counter("empty_slots")) / static_cast<double>(slots) : 0;
  viz::counters(
      ui, "counters",
      {{"free", count("free") + " / " + count("total"), "Blocks that no table holds."},
       {"used", count("used"), "Blocks in a table: each in exactly one."},
       {"sequences", count("sequences"), "Block tables that exist."},
       {"tokens", count("tokens"), "Tokens that have a slot."},
       {"empty slots", count("empty_slots"), "Slots in used blocks that hold no token: tails."},
       {"wasted", fmt::format("{:.1f} %", 100 * waste), "Empty slots as a share of used blocks."}});
  if (live_) {
    viz::draw_live_steps(ui, live_->finished());
  } else {
    draw_simulator_controls(ui);
  }
  const std::vector<Shown> all = shown();
  seen_ = current();
  hovered_.reset();  // until this frame's mouse is known
  draw_translation(ui, all);
  ui.begin_columns({0.45f, 0.55f});
  draw_pool(ui, all);
  if (!live_) {
    ui.heading("Watch the engine");
    viz::draw_live_start(ui, live_fields_, "Generate two at once",
                         "Two requests: this prompt, and its first half with half of the tokens.");
  }
  ui.next_column();
  ui.heading("Block tables and tokens");
  if (all.empty()) {
    ui.hint(live_ ? "The run has ended: every block is free again."
                  : "No sequence yet. Press New sequence, then append some tokens.");
  }
  for (const Shown& sequence : all) draw_sequence(ui, sequence);
  ui.end_columns();
}

void PagedPage::draw_simulator_controls(viz::Ui& ui) {
  ui.button("new", "New sequence", "new " + pool_->free_name(),
            "A sequence with an empty table. It takes no block before its first token.",
            pool_->why_not_add());
  ui.same_line();
  ui.number("blocks", "blocks", &new_blocks_, 1, NamedSequences::kMaxBlocks, "Of the next pool.");
  ui.same_line();
  int size = new_size_;
  ui.number("block size", "tokens each", &size, 1, 256, "A power of two.");
  const auto wanted = static_cast<unsigned>(size);  // + and - lead to the next power of two
  new_size_ = static_cast<int>(size > new_size_ ? std::bit_ceil(wanted) : std::bit_floor(wanted));
  ui.same_line();
  ui.button("resize", "New pool", fmt::format("resize {} {}", new_blocks_, new_size_),
            "Drop all sequences and begin with an empty pool of this size.");
}

void PagedPage::draw_translation(viz::Ui& ui, const std::vector<Shown>& all) {
  ui.heading("From a token to its slot");
  const std::optional<Pointed>& pointed = seen_;
  if (!pointed) {
    ui.hint("Point at a token, or click it to keep it.");
    return;
  }
  const Shown& sequence = *std::find_if(all.begin(), all.end(), [&](const Shown& candidate) {
    return candidate.name == pointed->name;
  });
  const BlockTable& table = *sequence.table;
  const int token = pointed->token, size = table.block_size();
  const Place place = table.place(token);
  ui.label(fmt::format("token {} of {}:", token, pointed->name));
  ui.same_line();
  ui.label(fmt::format("  block = table[{} / {}] = table[{}] = {}", token, size, token / size,
                       place.block_id));
  ui.same_line();
  ui.label(fmt::format("  offset = {} % {} = {}", token, size, place.offset));
  ui.same_line();
  ui.label(fmt::format("  slot = {} x {} + {} = {}", place.block_id, size, place.offset,
                       table.slot(token)));
  viz::SlotsView view{.block_id = place.block_id, .hue = sequence.hue, .marked = place.offset};
  const int first = token / size * size;
  view.filled = std::min(table.num_tokens() - first, size);
  for (int i = 0; i < size; ++i) {
    view.tokens.push_back(i < view.filled ? sequence.texts[static_cast<size_t>(first + i)] : "");
  }
  viz::slots(ui, "slots", view);
}

void PagedPage::draw_pool(viz::Ui& ui, const std::vector<Shown>& all) {
  const BlockPool& pool = manager().pool();
  const int size = manager().block_size();
  viz::PoolView view{.block_size = size, .sequences = {}, .blocks = {}};
  for (int32_t id = 0; id < pool.num_blocks(); ++id) {
    viz::BlockView& block = view.blocks.emplace_back();
    block.id = id;
    block.ref_cnt = pool.is_used(id) ? 1 : 0;
  }
  for (const Shown& sequence : all) {
    view.sequences.push_back({sequence.name, sequence.hue});
    for (int token = 0; token < sequence.table->num_tokens(); ++token) {
      const Place place = sequence.table->place(token);
      viz::BlockView& block = view.blocks[static_cast<size_t>(place.block_id)];
      if (place.offset == 0) block.owners.push_back(sequence.hue);
      block.filled = place.offset + 1;
      block.tokens.push_back(sequence.texts[static_cast<size_t>(token)]);
    }
  }
  if (seen_) {
    const Place place = table_of(seen_->name)->place(seen_->token);
    view.blocks[static_cast<size_t>(place.block_id)].highlight = true;
  }
  ui.heading(fmt::format("Pool: {} blocks of {} tokens", pool.num_blocks(), size));
  viz::pool_grid(ui, "pool", view);
}

void PagedPage::draw_sequence(viz::Ui& ui, const Shown& sequence) {
  const BlockTable& table = *sequence.table;
  const std::optional<int> marked =
      seen_ && seen_->name == sequence.name ? std::optional(seen_->token) : std::nullopt;
  viz::block_table(ui, sequence.name + "/table",
                   {.sequence = {sequence.name, sequence.hue},
                    .block_ids = {table.block_ids().begin(), table.block_ids().end()},
                    .ref_cnts = {},
                    .num_tokens = table.num_tokens(),
                    .block_size = table.block_size(),
                    .highlight_token = marked});
  if (!live_) draw_buttons(ui, sequence.name);
  const auto known = static_cast<int>(sequence.texts.size());
  const int first = std::max(0, known - kMostChips) / table.block_size() * table.block_size();
  if (first > 0) ui.hint(fmt::format("tokens {} to {}:", first, known - 1));
  std::vector<viz::TokenView> chips;
  for (int token = first; token < known; ++token) {
    const bool has_slot = token < table.num_tokens();
    chips.push_back({.text = sequence.texts[static_cast<size_t>(token)],
                     .hue = sequence.hue,
                     .strength = !has_slot                             ? 0.0f
                                 : token == marked                     ? 1.0f
                                 : token / table.block_size() % 2 == 0 ? 0.65f
                                                                       : 0.3f,
                     .tooltip = has_slot
                                    ? fmt::format("token {}: slot {}", token, table.slot(token))
                                    : fmt::format("token {}: drawn, no slot yet", token)});
  }
  const std::optional<int> over = viz::token_row(ui, sequence.name + "/tokens", chips);
  if (!over || first + *over >= table.num_tokens()) return;
  hovered_ = {sequence.name, first + *over};
  if (ui.mouse_clicked()) ui.run(fmt::format("point {} {}", sequence.name, first + *over));
}

void PagedPage::draw_buttons(viz::Ui& ui, const std::string& name) {
  for (const int count : {1, 10, 16, 64}) {
    ui.button(fmt::format("{}/append {}", name, count), fmt::format("+{}", count),
              fmt::format("append {} {}", name, count),
              fmt::format("{} more tokens: the last block first, then new ones.", count),
              pool_->why_not_append(name, count));
    ui.same_line();
  }
  const int tokens = pool_->table(name).num_tokens();
  ui.button(name + "/point", "last token",
            fmt::format("point {} {}", name, std::max(tokens - 1, 0)),
            "Show where its last token lies.", tokens == 0 ? "it has no token yet" : "");
  ui.same_line();
  ui.button(name + "/free", "free", "free " + name, "Drop it: all its blocks go back to the pool.");
}

}  // namespace

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<PagedPage>(context);
}

}  // namespace lesson03
