#include "viz/page.h"

#include <fmt/format.h>

#include <utility>

#include "sharing.h"
#include "viz/ui.h"

namespace lesson05 {

SharingPage::SharingPage(const viz::PageContext& context)
    : PoolPage(
          {.lesson = "05",
           .title = "Share and copy",
           .summary =
               "A fork shares its parent's blocks. A write into a shared block copies it first."},
          context) {
  declare_simulator();
  const std::vector<viz::Argument> args{viz::number("N", 1, 8).field("sequences", "3"),
                                        viz::text("PROMPT").field("prompt", "Once upon a time"),
                                        viz::number("TOKENS", 1, 512).or_else("12")};
  declare_own({{"live", args,
                "the engine runs the prompt once and forks it: N samples, each its own tokens",
                [this](auto& w) { return start_live(false, w); }},
               {"live beams", args,
                "the N best continuations by log probability: beams fork and die at every step",
                [this](auto& w) { return start_live(true, w); }}});
  declare(live_.step_and_stop([this] { return told_ = live_.story(); }));
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
             const std::vector<std::string> words = viz::words_of(w[1].text);
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
  declare_own(growing_verbs());
  declare_own(
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
        "drop NAME: blocks that no other sequence holds go back to the pool",
        [this](auto& w) { return simulator_->free(w[0].text); }},
       anew("resize",
            {viz::number("BLOCKS", 1, 4096).field("blocks", "16").follows([this] {
               return manager().pool().num_blocks();
             }),
             viz::power_of_two("SIZE", 256).field("tokens each", "4").follows([this] {
               return manager().block_size();
             })},
            "drop all sequences and begin with a new pool of BLOCKS x SIZE tokens, all free",
            &PoolSize::num_blocks, &PoolSize::block_size)});
}

std::string SharingPage::begin() {
  simulator_ = std::make_unique<Simulator>(settings_.num_blocks, settings_.block_size);
  return fmt::format("a pool of {} of {}, all free", kv::count_of(settings_.num_blocks, "block"),
                     kv::count_of(settings_.block_size, "token"));
}

std::string SharingPage::start_live(bool beams, const viz::Words& words) {
  live_.watch(beams, words[0].number, words[1].text, words[2].number,
              {.block_size = settings_.block_size, .num_blocks = settings_.num_blocks});
  watched_ = fmt::format("{} \"{}\"", beams ? "Beam search from" : "Samples of", words[1].text);
  told_ = live_.story();
  return fmt::format("{} of \"{}\": {}", beams ? "beam search" : "samples", words[1].text, told_);
}

Shown SharingPage::look() {
  const BlockPool& pool = manager().pool();
  Shown shown;
  shown.pool = viz::pool_view(manager().block_size(), 0, pool.num_blocks(),
                              [&](int32_t id) { return pool.ref_cnt(id); });
  const auto add = [&](const viz::SequenceView& sequence, int number, const std::string& origin,
                       auto text_of) -> viz::TableCard& {
    viz::TableCard card{{.sequence = sequence}, origin};
    card.ended = number < 0;
    if (!card.ended) {
      const BlockTable& table = manager().table(number);
      const auto text = [&](int token) { return text_of(table.slot(token), token); };
      static_cast<viz::TableView&>(card) =
          shown.pool.add(sequence, table.block_ids(), table.num_tokens(), text);
    }
    return shown.tables.emplace_back(std::move(card));
  };
  if (!live_.running()) {
    for (const Simulator::Sequence& one : simulator_->all()) {
      const bool is_new = viz::find_card(now_.tables, one.name) == nullptr;
      add(one, one.number, is_new ? one.parent : one.name,
          [&](int64_t slot, int) { return simulator_->text(slot); });
    }
    return shown;
  }
  for (const LiveSharing::Sequence& one : live_.sequences()) {
    const auto word = [&](size_t token) { return live_.word(one.tokens[token]); };
    viz::TableCard& card = add(one, one.number, one.origin, [&](int64_t, int token) {
      return word(static_cast<size_t>(token));
    });
    for (const int32_t token : one.tokens) card.text += live_.text(token);
    const bool waits = card.num_tokens > 0 && std::ssize(one.tokens) > card.num_tokens;
    if (waits) card.waiting = word(one.tokens.size() - 1);
  }
  return shown;
}

/// The copies made by the last command: entries of tables name another block now.
std::vector<BlockCopy> SharingPage::copies() const {
  std::vector<BlockCopy> copies;
  for (const viz::TableCard& table : now_.tables) {
    const viz::TableCard* was = viz::find_card(before_.tables, table.origin);
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
  PoolPage::changed();
  now_.copies = copies();
  live_.settle();
}

void SharingPage::refused(const viz::Command& command, const std::string& why) {
  now_.copies.clear();
  now_.refused.clear();
  now_.refusal = fmt::format("{}: {}; nothing has changed", command.text(), why);
  for (const viz::TableCard& table : now_.tables) {
    const std::string& name = table.sequence.name;
    const bool grows =
        command.verb == "append all" || (command.verb == "append" && command.args[0] == name);
    if (grows) now_.refused.emplace_back(name, Simulator::next_text(simulator_->all().at(name)));
  }
  before_ = now_;
}

/// The sequence that the buttons are for: the selected one, or the first.
std::string SharingPage::chosen() const {
  if (viz::find_card(now_.tables, selected()) != nullptr || now_.tables.empty()) return selected();
  return now_.tables.front().sequence.name;
}

std::vector<viz::Counter> SharingPage::counters() const {
  const BlockPool& pool = manager().pool();
  std::vector<viz::Counter> all{
      {"total", pool.num_blocks()},
      viz::free_counter(pool),
      {"used", pool.num_used(), "used", "Blocks that at least one table holds."},
      {"shared", pool.num_shared(), "shared",
       "Blocks that two tables or more hold: stored once, read by all."},
      {"sequences", std::ssize(manager().tables()), "sequences", "Block tables that exist."},
      {"as_copies", pool.num_references(), "as copies",
       "Blocks that the same sequences would fill if each had its own copy."},
      {"saved", pool.num_references() - pool.num_used(), "saved",
       "Blocks saved by sharing: as copies, less used."},
      {"copies", manager().num_copies(), "copies made",
       "Blocks copied on write so far: a write to a shared block copies it first."},
      {"block_size", manager().block_size()},
      {"live", live_.running()},
      {"generated", live_.num_generated()},
  };
  for (const viz::TableCard& one : now_.tables) {
    if (one.ended) continue;
    const std::string& name = one.sequence.name;
    all.push_back({name + ".tokens", one.num_tokens});
    all.push_back({name + ".blocks", std::ssize(one.block_ids)});
    all.push_back({name + ".last_ref", one.ref_cnts.empty() ? 0 : one.ref_cnts.back()});
  }
  return all;
}

void SharingPage::check_invariants() const {
  simulator_->check();
  if (live_.running()) live_.check();
}

void SharingPage::draw(viz::Ui& ui) {
  if (!live_.running()) return draw_simulator(ui);
  const std::string what =
      live_.beams() ? "One more token of every beam." : "Tokens of one sample each, in turn.";
  buttons(ui, {{"live/step 1", "Step", "step", what},
               {"live/step 4", "Step x4", "step 4", what},
               {"live/stop", "Stop", "stop"}});
  ui.hint(watched_ + ". " + told_ + ".");
}

std::vector<viz::Button> SharingPage::append_buttons(const std::string& who) const {
  std::vector<viz::Button> row;
  for (const auto& [id, count] : {std::pair<std::string, std::string>("1", "1"),
                                  {"4", "4"},
                                  {"16", "16"},
                                  {"custom", custom_}}) {
    row.push_back({who + "/append " + id, "+" + count, "append " + who + " " + count});
  }
  return row;
}

void SharingPage::draw_simulator(viz::Ui& ui) {
  buttons(ui, {{"new", "New sequence", "new " + simulator_->all().free_name()}});
  if (!simulator_->all().empty()) {  // else there is room for what begins anew
    if (const std::string name = chosen(); simulator_->all().find(name)) draw_sequence(ui, name);
    ui.heading("All sequences");
    buttons(ui, append_buttons("all"));
    custom_ = field(ui, "append", "TOKENS");
    ui.hint("Another pool, or the engine: when there is no sequence (Reset).");
    return;
  }
  ui.heading("Pool");
  form(ui, {"resize", "New pool", "resize"});
  ui.heading("Watch the engine");
  const std::string prompt = field(ui, "live", "PROMPT"), n = field(ui, "live", "N");
  buttons(ui, {{"live/samples", "Draw samples",
                viz::Command{.verb = "live", .args = {n, prompt}}.text()},
               {"live/beams", "Beam search",
                viz::Command{.verb = "live", .args = {"beams", n, prompt}}.text()}});
}

/// Buttons for the selected sequence; a click on a table selects it.
void SharingPage::draw_sequence(viz::Ui& ui, const std::string& name) {
  ui.heading("Sequence " + name);
  buttons(ui, append_buttons(name));
  std::vector<viz::Button> row;
  for (const size_t count : {size_t{1}, size_t{3}}) {
    row.push_back(
        {fmt::format("{}/fork {}", name, count), count == 1 ? "fork" : "fork x3",
         fmt::format("fork {} {}", name, fmt::join(simulator_->all().free_names(count), " "))});
  }
  row.push_back({name + "/free", "free", "free " + name});
  buttons(ui, row);
  form(ui, {name + "/write", "write", "write " + name});
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<SharingPage>(context);
}

}  // namespace lesson05
