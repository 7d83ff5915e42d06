#include "viz/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "page_paged.h"
#include "program/check_manager.h"

namespace lesson03 {

PagedPage::PagedPage(const viz::PageContext& context)
    : Page({.lesson = "03",
            .title = "Paged blocks",
            .summary =
                "A token's place: its block by division and the table, its offset by the rest."}),
      live_(context) {
  declare(live_.without_run(
      {{"new",
        {viz::word("NAME")},
        "a sequence NAME with an empty table; it takes no block before its first token",
        [this](auto& w) { return pool_->add(w[0].text); },
        [this](auto& w) { return pool_->all().why_not_add(w[0].text); }},
       {"append",
        {viz::word("NAME"), viz::number("TOKENS", 1, 1 << 20)},
        "NAME grows by TOKENS: the last block first, then new ones",
        [this](auto& w) { return pool_->append(w[0].text, w[1].number); },
        [this](auto& w) { return pool_->why_not_append(w[0].text, w[1].number); }},
       {"free",
        {viz::word("NAME")},
        "drop NAME: all its blocks go back to the pool",
        [this](auto& w) { return pool_->free(w[0].text); }},
       {"resize",
        {viz::number("BLOCKS", 1, 4096).field("blocks", "24"),
         viz::power_of_two("SIZE", 256).field("tokens each", "4")},
        "drop all sequences and begin with an empty pool of BLOCKS x SIZE tokens",
        [this](auto& w) {
          pool_ = std::make_unique<NamedSequences>(w[0].number, w[1].number);
          pointed_.reset();
          before_ = {};
          return fmt::format("a pool of {} of {}, all free", kv::count_of(w[0].number, "block"),
                             kv::count_of(w[1].number, "token"));
        }}}));
  declare({{"point",
            {viz::word("NAME"), viz::number("TOKEN", 0, 1 << 20)},
            "show where token TOKEN of NAME lies",
            [this](auto& w) { return point(w[0].text, w[1].number); },
            [this](auto& w) {
              return table_of({{w[0].text, w[1].number}}) ? "" : "there is no such token";
            }}});
  declare(live_.verbs(
      "watch the engine continue the prompt, and its first half with half of the tokens",
      [this](const std::string& prompt, int tokens) {
        const PagedOptions options{.block_size = manager().block_size(),
                                   .num_blocks = manager().pool().num_blocks()};
        live_.start(std::make_unique<PagedEngine>(live_.model(), options),
                    live_.prompt_and_half(prompt, tokens));
        pointed_.reset();
      },
      [this] { return story(); }, "Once upon a time there was a little dog"));
  reset();
}

void PagedPage::reset() {
  live_.stop();
  pointed_.reset();
  pool_ = std::make_unique<NamedSequences>(24, 4);
  before_ = {};
  change_ = {};
}

/// Finds out what the command has done, for the picture. Nothing points at a token that is gone.
void PagedPage::changed() {
  if (!table_of(pointed_)) pointed_.reset();
  if (before_.live != live_.running()) before_ = {};
  change_ = {};
  Before now{.live = live_.running(), .pointed = pointed_};
  for (const viz::SequenceView& sequence : sequences()) {
    const BlockTable& table = *table_of(sequence.name);
    const int tokens = table.num_tokens();
    now.held[sequence.name] = {tokens, {table.block_ids().begin(), table.block_ids().end()}};
    const auto old = before_.held.find(sequence.name);
    const int had = old == before_.held.end() ? 0 : old->second.first;
    if (tokens > had) change_.grown[sequence.name] = had;
  }
  for (const auto& [name, held] : before_.held) {
    if (!now.held.contains(name)) change_.gone[name] = held.second;
  }
  change_.pointed = pointed_ && pointed_ != before_.pointed;
  change_.why = why();
  int run = 0;
  for (int32_t id = 0; id < manager().pool().num_blocks(); ++id) {
    run = manager().pool().is_used(id) ? 0 : run + 1;
    now.free_run = std::max(now.free_run, run);
  }
  before_ = std::move(now);
}

void PagedPage::refused(const viz::Command& command, const std::string& why) {
  change_ = {.refused = true, .why = fmt::format("{} is refused: {}", command.text(), why)};
}

std::string PagedPage::why() const {
  std::vector<std::string> all;
  std::string with_room;  // whose last block had it
  for (const auto& [name, blocks] : change_.gone) {
    all.push_back(fmt::format("{} ends: its {} can serve others now", name,
                              kv::count_of(std::ssize(blocks), "block")));
  }
  for (const auto& [name, had] : change_.grown) {
    const BlockTable& table = *table_of(name);
    const int old = blocks_for(had, table.block_size()), fresh = table.num_blocks() - old;
    if (fresh == 1) {
      all.push_back(fmt::format(
          "{}{} takes block {}, a free one",
          old == 0
              ? ""
              : fmt::format("block {} is full: ", table.block_ids()[static_cast<size_t>(old - 1)]),
          name, table.block_ids().back()));
    } else if (fresh > before_.free_run && before_.free_run > 0) {
      all.push_back(fmt::format("{} takes {} blocks. At most {} lie in a row; a table needs no row",
                                name, fresh, before_.free_run));
    } else if (fresh > 1) {
      all.push_back(
          fmt::format("{} takes {} free blocks and writes their numbers down", name, fresh));
    } else {
      with_room += (with_room.empty() ? "" : ", ") + name;
    }
  }
  if (!with_room.empty()) all.push_back("no new block: the last one has room (" + with_room + ")");
  return fmt::format("{}", fmt::join(all, "; "));
}

std::string PagedPage::point(const std::string& name, int token) {
  pointed_ = {name, token};
  const int64_t slot = table_of(name)->slot(token), size = manager().block_size();
  return fmt::format("token {} of {}: block {}, offset {}, slot {}", token, name, slot / size,
                     slot % size, slot);
}

std::string PagedPage::story() {
  const BlockPool& pool = manager().pool();
  if (live_.finished()) {
    return fmt::format("the run has ended: {} of {} free", pool.num_free(),
                       kv::count_of(pool.num_blocks(), "block"));
  }
  const viz::LiveRun::Token& token = live_.generated().back();
  return fmt::format("request {} draws \"{}\"; {} in use for {}", token.request,
                     live_.text(token.id), kv::count_of(pool.num_used(), "block"),
                     kv::count_of(manager().num_tokens(), "token"));
}

std::vector<viz::SequenceView> PagedPage::sequences() const {
  if (!live_.running()) return {pool_->all().begin(), pool_->all().end()};
  std::vector<viz::SequenceView> all;
  for (size_t i = 0; i < live_.requests().size(); ++i) {
    if (live_.engine<PagedEngine>().sequence_of(i) < 0) continue;
    all.push_back({fmt::format("R{}", i), static_cast<int>(i)});
  }
  return all;
}

const BlockTable* PagedPage::table_of(const std::string& name) const {
  for (const viz::SequenceView& sequence : sequences()) {
    if (sequence.name != name) continue;
    if (!live_.running()) return &pool_->table(name);
    const auto request = static_cast<size_t>(sequence.hue);
    return &manager().table(live_.engine<PagedEngine>().sequence_of(request));
  }
  return nullptr;
}

const BlockTable* PagedPage::table_of(const std::optional<Pointed>& pointed) const {
  const BlockTable* table = pointed ? table_of(pointed->name) : nullptr;
  return table && pointed->token < table->num_tokens() ? table : nullptr;
}

std::vector<viz::Counter> PagedPage::counters() const {
  const BlockPool& pool = manager().pool();
  const int64_t size = manager().block_size(), slots = pool.num_used() * size;
  const int64_t tokens = manager().num_tokens();
  const BlockTable* pointed = table_of(pointed_);
  const int64_t slot = pointed ? pointed->slot(pointed_->token) : -1;
  std::vector<viz::Counter> all{
      {"total", pool.num_blocks()},
      {"free", pool.num_free(), "free", "Blocks that no table holds.",
       fmt::format("{} / {}", pool.num_free(), pool.num_blocks())},
      {"used", pool.num_used(), "used", "Blocks in a table: each in exactly one."},
      {"block_size", size},
      {"sequences", std::ssize(sequences()), "sequences", "Block tables that exist."},
      {"tokens", tokens, "tokens", "Tokens that have a slot."},
      {"live", live_.running()},
      {"generated", std::ssize(live_.generated())},
      {"empty_slots", slots - tokens, "empty slots",
       "Slots in used blocks that hold no token: tails."},
      viz::share("waste_permille", slots - tokens, slots, "wasted",
                 "Empty slots as a share of used blocks.", 1),
      {"point.block", pointed ? slot / size : -1},
      {"point.offset", pointed ? slot % size : -1},
      {"point.slot", slot},
  };
  for (const viz::SequenceView& sequence : sequences()) {
    all.push_back({sequence.name + ".tokens", table_of(sequence.name)->num_tokens()});
    all.push_back({sequence.name + ".blocks", table_of(sequence.name)->num_blocks()});
  }
  return all;
}

void PagedPage::check_invariants() const {
  pool_->check();
  if (live_.running()) check(manager());
  if (pointed_ && !table_of(pointed_)) {
    throw std::logic_error("the page points at a token that is not there");
  }
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<PagedPage>(context);
}

}  // namespace lesson03
