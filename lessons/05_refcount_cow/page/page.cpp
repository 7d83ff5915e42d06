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
               "A fork shares its parent's blocks. A write into a shared block copies it first.",
           .opening = {"new A", "write A \"The sky was dark and it\""},
           .tall = 440},
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
  declare(live_.step_and_stop([this] { return live_.story(); }));
  reset();
}

void SharingPage::declare_simulator() {
  const viz::Argument name = viz::word("NAME");
  const viz::Argument tokens = viz::number("TOKENS", 1, 1 << 20).field("tokens", "10");
  declare_own(
      {{"append",
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
          std::string story =
              simulator_->append({w[0].text}, static_cast<int>(words.size()), words);
          for (const auto& one : simulator_->all()) {  // the next one's turn, or a child may end
            if (is_to_write(one) || one.parent == w[0].text) select(one.name);
          }
          return story;
        },
        [this](auto& w) {
          const int words = viz::words_in(w[1].text);
          if (words == 0) return std::string("there is no word in it");
          return simulator_->why_not_append({w[0].text}, words);
        }},
       {"new",
        {name},
        "a sequence NAME with an empty table; it takes no block before its first token",
        [this](auto& w) {
          select(w[0].text);
          return simulator_->add(w[0].text);
        },
        [this](auto& w) { return simulator_->all().why_not_add(w[0].text); }},
       {"fork",
        {name, viz::words("NEW", 1, Simulator::kMaxSequences - 1)},
        "new sequences with the tokens of NAME in the same blocks: none is taken, none copied",
        [this](auto& w) {
          select(w.back().text);
          return simulator_->fork(w[0].text, viz::texts(w, 1));
        },
        [this](auto& w) {
          simulator_->all().at(w[0].text);
          return simulator_->all().why_not_add(viz::texts(w, 1));
        }},
       {"free",
        {name},
        "drop NAME: blocks that no other sequence holds go back to the pool",
        [this](auto& w) { return simulator_->free(w[0].text); }},
       fresh("resize",
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
  return fmt::format("{} \"{}\": {}", beams ? "Beam search from" : "Samples of", words[1].text,
                     live_.story());
}

Shown SharingPage::look() {
  const BlockPool& pool = manager().pool();
  Shown shown;
  shown.pool = viz::pool_view(manager().block_size(), 0, pool.num_blocks(),
                              [&](int32_t id) { return pool.ref_cnt(id); });
  const auto add = [&](viz::TableCard card, int number, auto text_of) {
    card.ended = number < 0;
    if (!card.ended) {
      const BlockTable& table = manager().table(number);
      const auto text = [&](int token) { return text_of(table.slot(token), token); };
      static_cast<viz::TableView&>(card) =
          shown.pool.add(card.sequence, table.block_ids(), table.num_tokens(), text);
    }
    return &shown.tables.emplace_back(std::move(card));
  };
  if (!live_.running()) {
    for (const Simulator::Sequence& one : simulator_->all()) {
      const bool is_new = viz::find_card(now_.tables, one.name) == nullptr;
      add({{.sequence = one}, is_new ? one.parent : one.name}, one.number,
          [&](int64_t slot, int) { return simulator_->text(slot); });
    }
    return shown;
  }
  for (const LiveSharing::Sequence& one : live_.sequences()) {
    const auto word = [&](size_t token) { return live_.word(one.tokens[token]); };
    viz::TableCard* const card = add({{.sequence = one}, one.origin}, one.number,
                                     [&](int64_t, int token) { return word(token); });
    for (const int32_t token : one.tokens) card->text += live_.text(token);
    const bool waits = card->num_tokens > 0 && std::ssize(one.tokens) > card->num_tokens;
    if (waits) card->waiting = word(one.tokens.size() - 1);
    if (live_.beams()) card->score = fmt::format("{:.2f}", one.log_prob);
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
      if (std::ranges::count(copies, table.block_ids[i], &BlockCopy::destination) > 0) continue;
      copies.push_back({was->block_ids[i], table.block_ids[i]});
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
    if (grows) now_.refused.emplace_back(name, Simulator::next_word(simulator_->all().at(name)));
  }
  before_ = now_;
}

/// Whether it has written nothing yet, or nothing since a fork: another begins with all it has.
bool SharingPage::is_to_write(const Simulator::Sequence& one) const {
  const auto begins = [&own = one.written, &one](const Simulator::Sequence& other) {
    const std::vector<std::string>& all = other.written;
    return other.number != one.number &&
           std::mismatch(own.begin(), own.end(), all.begin(), all.end()).first == own.end();
  };
  return one.written.empty() || std::ranges::any_of(simulator_->all(), begins);
}

/// The sequence that the buttons are for, framed in the picture: the one that was clicked or made
/// last, or whose turn to write it is; or, if that is gone, the last one there is.
std::string SharingPage::chosen() const {
  if (viz::find_card(now_.tables, selected()) != nullptr || now_.tables.empty()) return selected();
  return now_.tables.back().sequence.name;
}

std::vector<viz::Counter> SharingPage::counters() const {
  const BlockPool& pool = manager().pool();
  const int64_t as_copies = pool.num_references(), saved = as_copies - pool.num_used();
  std::vector<viz::Counter> all{
      {"total", pool.num_blocks()},
      viz::free_counter(pool),
      {"used", pool.num_used(), "used", "Blocks that at least one table holds."},
      {"shared", pool.num_shared(), "shared",
       "Blocks that two tables or more hold: stored once, read by all."},
      {"sequences", std::ssize(manager().tables())},
      {"as_copies", as_copies, saved > 0 ? "as copies" : "",
       "Blocks that there would be if each table had its own."},
      {"saved", saved, saved > 0 ? "saved" : "", "Blocks as copies, less those in use."},
      {"copies", manager().num_copies()},
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

/// Rows for the chosen sequence; while the engine runs, those of the run.
std::vector<viz::Button> SharingPage::actions() const {
  if (live_.running()) {
    const std::string what =
        live_.beams() ? "One more token of every beam." : "Tokens of one sample each, in turn.";
    return {{"live/step 1", "Step", "step", what, 'S', !live_.finished()},
            {"live/step 4", "Step x4", "step 4", what, 'X'},
            {"live/stop", "Stop", "stop", "", 'E', live_.finished()}};
  }
  const viz::NamedList<Simulator::Sequence>& all = simulator_->all();
  const viz::Button add{"new", "New", "new " + all.free_name(), "", 'N', all.empty()};
  if (all.empty()) return {add};
  const Simulator::Sequence& one = all.at(chosen());
  const std::string& name = one.name;
  const auto fork = [&](size_t count, const char* label, char key) {
    return viz::Button{fmt::format("{}/fork {}", name, count), label,
                       fmt::format("fork {} {}", name, fmt::join(all.free_names(count), " ")), "",
                       key};
  };
  std::vector<viz::Button> row{
      add,
      viz::append(name, 1, 'A'),
      viz::append(name, 4 * manager().block_size(), 'B'),
      fork(1, "Fork", 'F'),
      fork(3, "Fork x3", 'X'),
      {name + "/write", "Write", fmt::format("write {} {}", name, Simulator::next_word(one)), "",
       'W'},
      {name + "/free", "Free", "free " + name, "", 'E'}};
  // A story: a fork, a write that copies, one that need not, the fork's end; then three forks.
  const bool full = !why_not(viz::parse_command("write " + name + " on")).empty();
  const bool copied = manager().num_copies() > 0;
  const bool alone = all.size() == 1 || (!copied && manager().pool().num_shared() == 0);
  viz::Button &fork_one = row[3], &fork_three = row[4], &writes = row[5], &frees = row[6];
  viz::Button& asked = full               ? frees
                       : is_to_write(one) ? writes
                       : !alone           ? frees
                       : copied           ? fork_three
                                          : fork_one;
  asked.asked = true;
  return row;
}

void SharingPage::draw(viz::Ui& ui) {
  if (const std::string name = chosen(); simulator_->all().find(name) != nullptr) {
    ui.heading("All sequences");
    buttons(ui, {{"all/append 1", "+1", "append all 1"}, {"all/append 4", "+4", "append all 4"}});
    ui.heading("Sequence " + name);
    form(ui, {name + "/append", "append", "append " + name});
    form(ui, {name + "/write text", "write", "write " + name});
  }
  ui.heading("New pool");
  choice(ui, "Blocks x slots",
         {{"resize 16 4", "16 x 4", "resize 16 4"}, {"resize 64 16", "64 x 16", "resize 64 16"}});
  form(ui, {"resize", "New pool", "resize"});
  ui.heading("Watch the engine");
  const std::string prompt = field(ui, "live", "PROMPT"), n = field(ui, "live", "N");
  buttons(ui, {{"live/samples", "Draw samples",
                viz::Command{.verb = "live", .args = {n, prompt}}.text()},
               {"live/beams", "Beam search",
                viz::Command{.verb = "live", .args = {"beams", n, prompt}}.text()}});
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<SharingPage>(context);
}

}  // namespace lesson05
