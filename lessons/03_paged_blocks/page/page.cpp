#include "viz/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "paged.h"
#include "viz/ui.h"

namespace lesson03 {

const SequenceOnPage* Shown::find(const std::string& name) const {
  const auto found = std::ranges::find(sequences, name, &SequenceOnPage::name);
  return found == sequences.end() ? nullptr : &*found;
}

int Shown::num_tokens(const std::string& name) const {
  const SequenceOnPage* const sequence = find(name);
  return sequence == nullptr ? 0 : sequence->table.num_tokens();
}

PagedPage::PagedPage(const viz::PageContext& context)
    : PoolPage({.lesson = "03",
                .title = "Paged blocks",
                .summary =
                    "A token's place: its block by division and the table, its offset by the rest.",
                .opening = {"new A", "append A 6", "point A 5"},
                .tall = 700},
               context) {
  declare_pool();
  declare({{"point",
            {viz::word("NAME"), viz::number("TOKEN", 0, 1 << 20)},
            "show where token TOKEN of NAME lies",
            [this](auto& w) {
              pointed_ = {w[0].text, w[1].number};
              const int64_t slot = now_.find(w[0].text)->table.slot(w[1].number);
              const int64_t size = manager().block_size();
              return fmt::format("Token {} of {} is in block {} at offset {}: slot {}", w[1].number,
                                 w[0].text, slot / size, slot % size, slot);
            },
            [this](auto& w) {
              return w[1].number < now_.num_tokens(w[0].text) ? "" : "there is no such token";
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

void PagedPage::declare_pool() {
  declare_own({{"new",
                {viz::word("NAME")},
                "a sequence NAME with an empty table; it takes no block before its first token",
                [this](auto& w) { return pool_->add(w[0].text); },
                [this](auto& w) { return pool_->all().why_not_add(w[0].text); }},
               {"append",
                {viz::word("NAME"), viz::number("TOKENS", 1, 1 << 20)},
                "NAME grows by TOKENS: the last block first, then new ones",
                [this](auto& w) {
                  const std::string story = pool_->append(w[0].text, w[1].number);
                  const int64_t slots =
                      int64_t{manager().pool().num_used()} * manager().block_size();
                  return fmt::format("{}; {} of {} slots are empty", story,
                                     kv::with_commas(slots - manager().num_tokens()),
                                     kv::with_commas(slots));
                },
                [this](auto& w) { return pool_->why_not_append(w[0].text, w[1].number); }},
               {"free",
                {viz::word("NAME")},
                "drop NAME: all its blocks go back to the pool",
                [this](auto& w) { return pool_->free(w[0].text); }},
               fresh("resize",
                     {viz::number("BLOCKS", 1, 4096).field("blocks", "24"),
                      viz::power_of_two("SIZE", 256).field("tokens each", "4")},
                     "drop all sequences and begin with an empty pool of BLOCKS x SIZE tokens",
                     &PoolSize::num_blocks, &PoolSize::block_size)});
}

std::string PagedPage::begin() {
  pointed_.reset();
  pool_ = std::make_unique<NamedSequences>(settings_.num_blocks, settings_.block_size);
  return fmt::format("a pool of {} of {}, all free", kv::count_of(settings_.num_blocks, "block"),
                     kv::count_of(settings_.block_size, "token"));
}

std::vector<SequenceOnPage> PagedPage::sequences() const {
  std::vector<SequenceOnPage> all;
  if (!live_.running()) {
    for (const NamedSequences::Sequence& one : pool_->all()) {
      all.push_back({one, pool_->table(one.name), {}});
      for (const std::string& text : one.written) {
        all.back().texts.push_back(text.substr(one.name.size()));
      }
    }
    return all;
  }
  for (size_t i = 0; i < live_.requests().size(); ++i) {
    const auto number = static_cast<int>(i);
    if (!manager().tables().contains(number)) continue;
    const viz::SequenceView view{fmt::format("R{}", i), number};
    all.push_back({view, manager().table(number), {}});
    for (const int32_t token : live_.tokens(i)) all.back().texts.push_back(live_.word(token));
  }
  return all;
}

Shown PagedPage::look() {
  Shown shown;
  shown.sequences = sequences();
  shown.block_size = manager().block_size();
  shown.live = live_.running();
  for (int32_t id = 0; id < manager().pool().num_blocks(); ++id) {
    shown.used.push_back(manager().pool().is_used(id));
  }
  // Drops the pointer to a token that is gone.
  if (pointed_ && pointed_->token >= shown.num_tokens(pointed_->name)) pointed_.reset();
  shown.pointed = pointed_;
  return shown;
}

void PagedPage::refused(const viz::Command& command, const std::string& why) {
  now_.refusal = fmt::format("{} is refused: {}", command.text(), why);
  before_ = now_;
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

std::vector<viz::Counter> PagedPage::counters() const {
  const BlockPool& pool = manager().pool();
  const int64_t size = manager().block_size(), slots = pool.num_used() * size;
  const int64_t tokens = manager().num_tokens();
  const int64_t slot = pointed_ ? now_.find(pointed_->name)->table.slot(pointed_->token) : -1;
  std::vector<viz::Counter> all{
      {"total", pool.num_blocks()},
      viz::free_counter(pool),
      {"used", pool.num_used(), "used", "Blocks in a table: each in exactly one."},
      {"block_size", size},
      {"sequences", std::ssize(now_.sequences), "sequences", "Block tables that exist."},
      {"tokens", tokens},
      {"live", live_.running()},
      {"generated", std::ssize(live_.generated())},
      {"empty_slots", slots - tokens, "empty slots",
       "Slots in used blocks that hold no token: tails."},
      viz::share("waste_permille", slots - tokens, slots, "", ""),
      {"point.block", pointed_ ? slot / size : -1},
      {"point.offset", pointed_ ? slot % size : -1},
      {"point.slot", slot},
  };
  for (const SequenceOnPage& sequence : now_.sequences) {
    all.push_back({sequence.name + ".tokens", sequence.table.num_tokens()});
    all.push_back({sequence.name + ".blocks", sequence.table.num_blocks()});
  }
  return all;
}

void PagedPage::check_invariants() const {
  pool_->check();
  if (live_.running()) check(manager());
}

/// For the sequence in focus.
std::vector<viz::Button> PagedPage::actions() const {
  if (live_.running()) return live_.steps();
  const auto& all = pool_->all();
  const viz::Button add{"new", "New", "new " + all.free_name(), "", 'N', all.empty()};
  if (all.empty()) return {add};
  const std::string name =
      all.find(selected()) != nullptr ? selected() : in_focus(before_, now_, selected());
  const int tokens = pool_->table(name).num_tokens(), row_of_blocks = 4 * manager().block_size();
  const bool full = !pool_->why_not_append(name, row_of_blocks).empty();
  return {
      add,
      viz::append(name, 1, 'A'),
      viz::append(name, row_of_blocks, 'B', !full && (tokens == 0 || pointed_.has_value())),
      {name + "/point", "Find the last", fmt::format("point {} {}", name, std::max(tokens - 1, 0)),
       "", 'L', !full && tokens > 0 && !pointed_.has_value()},
      {name + "/free", "Free", "free " + name, "", 'E', full}};
}

void PagedPage::draw(viz::Ui& ui) {
  choice(ui, "Blocks x slots",
         {{"resize 24 4", "24 x 4", "resize 24 4"}, {"resize 64 16", "64 x 16", "resize 64 16"}});
  form(ui, {"resize", "New pool", "resize"});
  form(ui, {"live/start", "Generate two at once", "live"});
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<PagedPage>(context);
}

}  // namespace lesson03
