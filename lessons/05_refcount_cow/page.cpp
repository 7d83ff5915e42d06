#include "viz/page.h"

#include <fmt/format.h>

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
  const std::vector<viz::Argument> args{viz::number("N", 1, 8).field("sequences", "4"),
                                        viz::text("PROMPT").field("prompt", "Once upon a time"),
                                        viz::number("TOKENS", 1, 512).or_else("24")};
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

void SharingPage::declare_simulator() {
  const viz::Argument name = viz::word("NAME");
  const viz::Argument tokens = viz::number("TOKENS", 1, 1 << 20).field("tokens", custom_);
  declare(live_.without_run(
      {{"new",
        {name},
        "a sequence NAME with an empty table; it takes no block before its first token",
        [this](auto& w) { return simulator_->add(w[0].text); },
        [this](auto& w) { return simulator_->all().why_not_add(w[0].text); }},
       {"append",
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
        {viz::number("BLOCKS", 1, 4096).field("blocks", "64"),
         viz::power_of_two("SIZE", 256).field("tokens each", "16")},
        "drop all sequences and begin with a new pool of BLOCKS x SIZE tokens, all free",
        [this](auto& w) {
          simulator_ = std::make_unique<Simulator>(w[0].number, w[1].number);
          return fmt::format("a pool of {} of {}, all free", kv::count_of(w[0].number, "block"),
                             kv::count_of(w[1].number, "token"));
        }}}));
}

void SharingPage::reset() {
  live_.stop();
  simulator_ = std::make_unique<Simulator>(64, 16);
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
  const auto add = [&](const auto& sequence) {
    all.push_back({sequence, &manager().table(sequence.number)});
  };
  if (live_.running()) {
    for (const LiveSharing::Sequence& sequence : live_.sequences()) add(sequence);
  } else {
    for (const Simulator::Sequence& sequence : simulator_->all()) add(sequence);
  }
  return all;
}

/// The pool as it is now, with the texts of its tokens.
void SharingPage::changed() {
  const BlockPool& pool = manager().pool();
  const int size = manager().block_size();
  viz::PoolView now =
      viz::pool_view(size, 0, pool.num_blocks(), [&](int32_t id) { return pool.ref_cnt(id); });
  tables_.clear();
  for (const SequenceOnPage& one : sequences()) {
    tables_.push_back(now.add(one, one.table->block_ids(), one.table->num_tokens()));
  }
  const std::vector<LiveSharing::Sequence> live =
      live_.running() ? live_.sequences() : std::vector<LiveSharing::Sequence>();
  for (size_t s = 0; s < tables_.size(); ++s) {
    for (int token = 0; token < tables_[s].num_tokens; ++token) {
      const int32_t id = tables_[s].block_ids[static_cast<size_t>(token / size)];
      std::vector<std::string>& texts = now.at(id).tokens;
      if (token % size < std::ssize(texts)) continue;  // another holder has told it
      texts.push_back(live_.running() ? live_.text(live[s].tokens[static_cast<size_t>(token)])
                                      : simulator_->text(int64_t{id} * size + token % size));
    }
  }
  if (std::exchange(shown_, &manager()) == &manager()) now.mark_changes(pool_);
  pool_ = std::move(now);
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
