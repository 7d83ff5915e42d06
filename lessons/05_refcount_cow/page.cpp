#include "viz/page.h"

#include <fmt/format.h>

#include <iterator>
#include <sstream>
#include <utility>

#include "page_sharing.h"

namespace lesson05 {

SharingPage::SharingPage(const viz::PageContext& context)
    : Page({.lesson = "05",
            .title = "Share and copy",
            .summary =
                "A fork shares its parent's blocks. A write into a shared block copies it first."}),
      live_(context) {
  declare_simulator();
  const std::vector<viz::Argument> args{viz::number("N", 1, 8).field("sequences", "3"),
                                        viz::text("PROMPT").field("prompt", "Once upon a time"),
                                        viz::number("TOKENS", 1, 512).or_else("12")};
  declare(live_.without_run(
      {{"live", args,
        "the engine runs the prompt once and forks it: N samples, each its own tokens",
        [this](auto& w) { return start_live(false, w); }},
       {"live beams", args,
        "the N best continuations by log probability: beams fork and die at every step",
        [this](auto& w) { return start_live(true, w); }}}));
  declare(live_.step_and_stop([this] { return live_.story(); }));
  reset();
}

/// The verbs with which sequences grow.
std::vector<viz::Verb> SharingPage::growing_verbs() {
  const viz::Argument name = viz::word("NAME");
  const viz::Argument tokens = viz::number("TOKENS", 1, 1 << 20).field("tokens", custom_);
  return {{"append",
           {name, tokens},
           "NAME grows by TOKENS; a shared last block that is not full is copied first",
           [this](auto& w) { return simulator_->append({w[0].text}, w[1].number); },
           [this](auto& w) { return simulator_->why_not_append({w[0].text}, w[1].number); }},
          {"append all",
           {tokens},
           "every sequence grows by TOKENS, or none if the pool cannot hold them all",
           [this](auto& w) { return simulator_->append(simulator_->all().names(), w[0].number); },
           [this](auto& w) {
             return simulator_->why_not_append(simulator_->all().names(), w[0].number);
           }},
          {"write",
           {name, viz::text("TEXT").field("text", "and then")},
           "NAME grows by the words of TEXT, each a token",
           [this](auto& w) {
             std::istringstream in(w[1].text);
             const std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
             return simulator_->append({w[0].text}, static_cast<int>(words.size()), words);
           },
           [this](auto& w) {
             const int words = viz::words_in(w[1].text);
             if (words == 0) return std::string("there is no word in it");
             return simulator_->why_not_append({w[0].text}, words);
           }}};
}

void SharingPage::declare_simulator() {
  const viz::Argument name = viz::word("NAME");
  declare(live_.without_run(growing_verbs()));
  declare(live_.without_run(
      {{"new",
        {name},
        "a sequence NAME with an empty table; it takes no block before its first token",
        [this](auto& w) { return simulator_->add(w[0].text); },
        [this](auto& w) { return simulator_->all().why_not_add(w[0].text); }},
       {"fork",
        {name, viz::words("NEW", 1, Simulator::kMaxSequences - 1)},
        "new sequences with the tokens of NAME in the same blocks: none is taken, none copied",
        [this](auto& w) { return simulator_->fork(w[0].text, viz::texts(w, 1)); },
        [this](auto& w) {
          simulator_->all().at(w[0].text);
          return simulator_->all().why_not_add(viz::texts(w, 1));
        }},
       {"free",
        {name},
        "drop NAME: blocks that nobody else holds go back to the pool",
        [this](auto& w) { return simulator_->free(w[0].text); }},
       {"resize",
        {viz::number("BLOCKS", 1, 4096).field("blocks", "16").follows([this] {
           return manager().pool().num_blocks();
         }),
         viz::power_of_two("SIZE", 256).field("tokens each", "4").follows([this] {
           return manager().block_size();
         })},
        "drop all sequences and begin with a new pool of BLOCKS x SIZE tokens, all free",
        [this](auto& w) {
          simulator_ = std::make_unique<Simulator>(w[0].number, w[1].number);
          return fmt::format("a pool of {} of {}, all free", kv::count_of(w[0].number, "block"),
                             kv::count_of(w[1].number, "token"));
        }}}));
}

void SharingPage::reset() {
  live_.stop();
  simulator_ = std::make_unique<Simulator>(16, 4);
  changed();
}

std::string SharingPage::start_live(bool beams, const viz::Words& words) {
  live_.watch({.beams = beams,
               .n = words[0].number,
               .prompt = words[1].text,
               .max_tokens = words[2].number,
               .num_blocks = manager().pool().num_blocks(),
               .block_size = manager().block_size()});
  return fmt::format("{} of \"{}\": {}", beams ? "beam search" : "samples", words[1].text,
                     live_.story());
}

std::vector<SharingPage::SequenceOnPage> SharingPage::sequences() const {
  std::vector<SequenceOnPage> all;
  if (live_.running()) {
    for (const LiveSharing::Sequence& one : live_.sequences()) {
      const BlockTable* table = one.number < 0 ? nullptr : &manager().table(one.number);
      all.push_back({one, table, one.origin, one.words, one.text});
    }
    return all;
  }
  for (const Simulator::Sequence& one : simulator_->all()) {
    const bool is_new = now_.find(one.name) == nullptr;
    all.push_back({one, &manager().table(one.number), is_new ? one.parent : one.name});
  }
  return all;
}

/// The sequence's table; its tokens go into the slots of the pool.
ShownTable SharingPage::shown_table(viz::PoolView& pool, const SequenceOnPage& sequence) const {
  ShownTable shown;
  if (sequence.table != nullptr) {
    static_cast<viz::TableView&>(shown) =
        pool.add(sequence, sequence.table->block_ids(), sequence.table->num_tokens());
  }
  shown.sequence = sequence;
  shown.block_size = pool.block_size;
  shown.origin = sequence.origin;
  shown.text = sequence.text;
  for (int token = 0; token < shown.num_tokens; ++token) {
    const int64_t slot = sequence.table->slot(token);
    std::vector<std::string>& texts = pool.at(static_cast<int32_t>(slot / pool.block_size)).tokens;
    if (slot % pool.block_size < std::ssize(texts)) continue;  // another holder has told it
    texts.push_back(live_.running() ? sequence.words[static_cast<size_t>(token)]
                                    : simulator_->text(slot));
  }
  const bool waits = shown.num_tokens > 0 && std::ssize(sequence.words) > shown.num_tokens;
  if (waits) shown.waiting = sequence.words.back();
  return shown;
}

/// Of the last command: what the simulator's manager has copied; of the engine, whose copies go to
/// its cache, entries of tables that name another block now.
std::vector<BlockCopy> SharingPage::copies() const {
  if (!live_.running()) return simulator_->copies();
  std::vector<BlockCopy> copies;
  for (const ShownTable& table : now_.tables) {
    const ShownTable* was = before_.find(table.origin);
    for (size_t i = 0; was != nullptr && i < table.block_ids.size(); ++i) {
      if (i >= was->block_ids.size() || was->block_ids[i] == table.block_ids[i]) continue;
      const bool known =
          std::ranges::count(copies, table.block_ids[i], &BlockCopy::destination) > 0;
      if (!known) copies.push_back({was->block_ids[i], table.block_ids[i]});
    }
  }
  return copies;
}

void SharingPage::changed() {
  const BlockPool& pool = manager().pool();
  Shown now;
  now.pool = viz::pool_view(manager().block_size(), 0, pool.num_blocks(),
                            [&](int32_t id) { return pool.ref_cnt(id); });
  for (const SequenceOnPage& one : sequences()) now.tables.push_back(shown_table(now.pool, one));
  const bool same = std::exchange(shown_, &manager()) == &manager();
  before_ = same ? std::exchange(now_, {}) : Shown();
  now_ = std::move(now);
  if (!same) return live_.settle();
  now_.copies = copies();
  live_.settle();
}

void SharingPage::refused(const viz::Command& command, const std::string& why) {
  now_.copies.clear();
  now_.refused.clear();
  now_.refusal = fmt::format("{}: {}; nothing has changed", command.text(), why);
  for (const ShownTable& table : now_.tables) {
    const std::string& name = table.sequence.name;
    const bool grows =
        command.verb == "append all" || (command.verb == "append" && command.args[0] == name);
    if (grows) now_.refused.emplace_back(name, next_label(simulator_->all().at(name)));
  }
  before_ = now_;
}

viz::Scene SharingPage::scene(const viz::Room& room) {
  viz::Scene scene = sharing_scene(now_, room, chosen());
  add_motion(scene, before_, now_);
  return scene;
}

/// The sequence that the buttons are for: the selected one, or the first.
std::string SharingPage::chosen() const {
  if (now_.find(selected()) != nullptr || now_.tables.empty()) return selected();
  return now_.tables.front().sequence.name;
}

std::vector<viz::Counter> SharingPage::counters() const {
  const BlockPool& pool = manager().pool();
  const int64_t as_copies = pool.num_references();
  std::vector<viz::Counter> all{
      {"total", pool.num_blocks()},
      {"free", pool.num_free(), "free", "Blocks that no table holds, of all blocks in the pool.",
       fmt::format("{} / {}", pool.num_free(), pool.num_blocks())},
      {"used", pool.num_used(), "used", "Blocks that at least one table holds."},
      {"shared", pool.num_shared(), "shared",
       "Blocks that two tables or more hold: stored once, read by all."},
      {"sequences", std::ssize(manager().tables()), "sequences", "Block tables that exist."},
      {"as_copies", as_copies, "as copies",
       "Blocks that the same sequences would fill if each had its own copy."},
      {"saved", as_copies - pool.num_used(), "saved",
       "Blocks saved by sharing: as copies, less used."},
      {"copies", manager().num_copies(), "copies made",
       "Blocks copied on write so far: a write to a shared block copies it first."},
      {"block_size", manager().block_size()},
      {"live", live_.running()},
      {"generated", live_.num_generated()},
  };
  for (const SequenceOnPage& one : sequences()) {
    if (one.table == nullptr) continue;
    const auto ids = one.table->block_ids();
    all.push_back({one.name + ".tokens", one.table->num_tokens()});
    all.push_back({one.name + ".blocks", one.table->num_blocks()});
    all.push_back({one.name + ".last_ref", ids.empty() ? 0 : pool.ref_cnt(ids.back())});
  }
  return all;
}

void SharingPage::check_invariants() const {
  simulator_->check();
  if (live_.running()) live_.check();
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<SharingPage>(context);
}

}  // namespace lesson05
