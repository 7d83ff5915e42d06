#include "page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "lessons/12_file_tier/checksum_blocks.h"
#include "lessons/12_file_tier/page/numbers.h"
#include "viz/ui.h"

namespace lesson13 {
namespace {

constexpr size_t kBytesPerBlock = 2 * kBlockSize * sizeof(float);
constexpr size_t kContentAt = 56 + kBlockSize * sizeof(int32_t);

/// What servers find out about blocks of the store, and the words for it.
constexpr struct {
  int64_t SharedMetrics::*count;
  const char *name, *what;
} kNews[] = {
    {&SharedMetrics::num_damaged, "damaged", "A value is not what its name says, and is refused"},
    {&SharedMetrics::num_poisoned, "poisoned",
     "The server computed other K and V, and replaces them"},
    {&SharedMetrics::num_not_put, "not_put", "The store does not take what is put"}};

}  // namespace

std::optional<size_t> PageStore::find(std::span<const BlockName> names) {
  return is_there ? values.find(names) : std::nullopt;
}
void PageStore::get(std::span<const BlockName> names, const OnValue& on_value) {
  if (is_there) values.get(names, on_value);
}
bool PageStore::put(const BlockName& name, std::string_view value) {
  if (!is_there || (!places.contains(name) && places.size() >= num_places)) return false;
  places.try_emplace(name, static_cast<int32_t>(places.size()) + 1);
  return values.put(name, value);
}

TieredScheduler::TieredScheduler(BlockStore& store, const PageSettings& settings)
    : cache(lesson12::one_number(), stream, settings.blocks + 1, kBlockSize),
      regions(lesson05::regions_of(cache, stream)),
      memory(kBytesPerBlock, kv::Device::kCpu, 4 * settings.blocks + 1),
      tier(regions, memory, store, kFingerprint, stream, {},
           {.secret = settings.has_secret ? "secret" : "", .check_every = settings.check_every},
           kv::RunJobs::kAtOnce),
      scheduler(tier.manager(), {.max_tokens_per_pass = 16}) {}

void TieredScheduler::write(const lesson08::Chunk& chunk) {
  lesson12::write_numbers(cache, tier.manager().table(chunk.id).block_ids(),
                          scheduler.request(chunk.id), chunk.num_tokens);
  computed += chunk.num_tokens;
}

SharedTierPage::SharedTierPage(const viz::PageContext& context)
    : PoolPage({.lesson = "13",
                .title = "One shared cache",
                .summary = "A block has a name that means the same on every server. What one "
                           "server has computed, the other one loads from the store.",
                .opening = {"submit one A 14 1", "pass one 2", "submit two A 14 1"}},
               context) {
  const auto which = viz::choice("one|two").field("server", "one");
  declare(
      {{"submit",
        {which, viz::word("NAME").field("name", "A"),
         viz::number("PROMPT", 1, 128).field("prompt", "12"),
         viz::number("MAX", 1, 128).field("to generate", "2")},
        "a request to server one or two: the first PROMPT tokens of NAME's text, MAX to generate",
        [this](auto& w) { return submit(w); },
        [this](auto& w) { return viz::why_not_come(shown_.asked, w[1].text); }},
       {"pass",
        {which, viz::number("COUNT", 1, 1000).or_else("1")},
        "let a server go on by COUNT; full blocks go to the store after each pass",
        [this](auto& w) {
          const TieredScheduler& server = *servers_[w[0].number];
          const int64_t before = server.computed;
          for (int i = 0; i < w[1].number && has_work(w[0].number); ++i) pass(w[0].number);
          if (shown_.reason.empty())
            shown_.reason = fmt::format("Server {} computes {}.", w[0].text,
                                        kv::count_of(server.computed - before, "token"));
          return tell(shown_.reason);
        },
        [this](auto& w) { return has_work(w[0].number) ? "" : "this server has nothing to do"; },
        true},
       {"change",
        {viz::choice("damage|poison|lose"), viz::word("BLOCK")},
        "a bit of BLOCK's value flips; it gets other K and V with the right checksum; the store "
        "evicts it",
        [this](auto& w) {
          constexpr const char* kHow[] = {"damage", "poison", "lose"};
          return change(kHow[w[0].number], w[1].text);
        },
        [this](auto& w) {
          return find_value(w[1].text) != nullptr ? "" : "the store has no such block";
        }},
       viz::Verb{"store",
                 {viz::choice("gone|back")},
                 "the store does not answer any more, or answers again",
                 [this](auto& w) {
                   store_.is_there = w[0].number == 1;
                   return tell(store_.is_there ? "The store answers again."
                                               : "The store is gone: it answers nobody.");
                 }}
           .holding_if([this](auto& w) { return store_.is_there == (w[0].number == 1); }),
       fresh("pool",
             {viz::number("BLOCKS", 2, 16), viz::choice("open|secret"), viz::number("CHECK", 0, 9)},
             "start over with an empty store; blocks of each device; with a common secret or not; "
             "every CHECKth text is computed again and compared",
             &PageSettings::blocks, &PageSettings::has_secret, &PageSettings::check_every)});
  reset();
}

std::string SharedTierPage::begin() {
  servers_ = {};
  for (const auto& [name, place] : store_.places) store_.values.erase(name);
  store_.places.clear();
  store_.num_places = 2 * settings_.blocks;
  store_.is_there = true;
  for (auto& server : servers_) server = std::make_unique<TieredScheduler>(store_, settings_);
  shown_ = {};
  by_hash_.clear();
  by_name_.clear();
  tokens_.clear();
  next_id_ = 0;
  poisoned_ = false;
  told_ = {};
  return "Two servers, and an empty store.";
}

std::string SharedTierPage::submit(const viz::Words& words) {
  TieredScheduler& server = *servers_[words[0].number];
  const std::string& name = words[1].text;
  server.scheduler.check_fits(next_id_, words[2].number, words[3].number);
  Asked& asked = shown_.asked.find(name) ? shown_.asked.at(name) : shown_.asked.add(name, {});
  asked.begin(next_id_++, words[2].number, words[3].number);
  asked.server = words[0].number;
  lesson06::BlockHashes hashes;
  hashes.extend(asked.text, kBlockSize, {});
  std::vector<BlockName> names;
  extend_names(names, root_name(kFingerprint), asked.text, kBlockSize);
  viz::label_blocks(by_hash_, asked, hashes.all());
  viz::label_blocks(by_name_, asked, names);
  for (size_t i = 0; i < names.size(); ++i) {
    const auto own = std::span(asked.text).subspan(i * kBlockSize, kBlockSize);
    tokens_.try_emplace(names[i], own.begin(), own.end());
  }
  const int64_t before = server.tier.metrics().num_queried;
  shown_.trip = {.text = name, .server = asked.server};
  const bool waits = server.tier.add(asked.id, asked.prompt(), {}, true);
  const int64_t queried = server.tier.metrics().num_queried - before;
  return tell(fmt::format("{} comes to server {}, which asks the store for {}.", name,
                          words[0].text, waits ? kv::count_of(queried, "block") : "nothing"));
}

/// The request need not wait for the store any longer.
void SharedTierPage::start(TieredScheduler& server, int64_t id) {
  const Asked& asked = *std::ranges::find(shown_.asked, id, &Asked::id);
  shown_.trip = {.text = asked.name, .server = asked.server};
  server.scheduler.submit(id, asked.prompt(), asked.max_tokens);
}

bool SharedTierPage::has_work(int number) const {
  return std::ranges::any_of(
      shown_.asked, [&](const Asked& asked) { return asked.is_there() && asked.server == number; });
}

/// Runs a step of the server without a model.
void SharedTierPage::pass(int number) {
  TieredScheduler& server = *servers_[number];
  SharedTier& tier = server.tier;
  for (const int64_t id : tier.complete()) start(server, id);
  load_waiting(server.scheduler, tier.manager());
  const lesson08::SchedulerOutput output = server.scheduler.schedule();
  if (output.chunks.empty()) {
    tier.manager().wait_for_load();
    shown_.reason = "The store's blocks have come. They are checked, and go to the device.";
  }
  tier.begin_pass();
  for (const lesson08::Chunk& chunk : output.chunks) {
    const auto& request = server.scheduler.request(chunk.id);
    tier.add_chunk(chunk.id, request.tokens, request.num_computed,
                   request.num_computed + chunk.num_tokens);
  }
  tier.swapper().wait(tier.manager().take_write_job());
  for (const int64_t id : output.started) {
    Asked& asked = *std::ranges::find(shown_.asked, id, &Asked::id);
    asked.num_cached = server.scheduler.request(id).num_cached;
    shown_.loaded += asked.num_cached;
    shown_.reason =
        fmt::format("{} finds {} of its {}, and computes the others.", asked.name, asked.num_cached,
                    kv::count_of(std::ssize(server.scheduler.request(id).tokens), "token"));
  }
  for (const lesson08::Chunk& chunk : output.chunks) server.write(chunk);
  server.scheduler.update(output.chunks);
  tier.end_pass();
  for (Asked& asked : shown_.asked) {
    if (!asked.is_there() || asked.server != number) continue;
    if (std::ranges::find(output.chunks, asked.id, &lesson08::Chunk::id) == output.chunks.end() ||
        !server.scheduler.wants_token(asked.id)) {
      continue;
    }
    server.scheduler.add_token(asked.id, asked.next_token());
    if (++asked.generated < asked.max_tokens) continue;
    asked.ended = server.scheduler.finish(asked.id);
    tier.remove(asked.id);
    asked.doing = "has ended";
  }
  // What has become full is put. Requests that wait go on with the next pass.
  for (const int64_t id : tier.complete()) start(server, id);
  for (const int64_t id : tier.complete()) start(server, id);
}

/// The name of the block that the store has under this label; null if it has none.
const BlockName* SharedTierPage::find_value(const std::string& name) const {
  for (const auto& [block, shown] : by_name_) {
    if (shown.second == name && store_.values.values().contains(block)) return &block;
  }
  return nullptr;
}

std::string SharedTierPage::change(const std::string& how, const std::string& name) {
  const BlockName block = *find_value(name);
  const std::string place = viz::shelf_block_id(kStore, store_.places.at(block));
  if (how == "lose") {
    store_.values.erase(block);
    return tell(fmt::format("The store evicts {}: who needs it computes it again.", name), place);
  }
  std::string value = store_.values.values().at(block).value;
  value[kContentAt + 2] = static_cast<char>(value[kContentAt + 2] ^ 4);
  if (how == "poison") {
    const auto content = std::as_bytes(std::span(value)).subspan(kContentAt, kBytesPerBlock);
    const uint64_t checksum = lesson12::checksum_of(content);
    std::memcpy(value.data() + 48, &checksum, sizeof checksum);
    poisoned_ = true;
  }
  store_.values.put(block, value);
  return tell(how == "poison"
                  ? name + " gets other K and V, and their checksum. It looks as good as any."
                  : "A bit of " + name + " flips in the store. No server has noticed it yet.",
              place);
}

/// Returns the text of what happened, and of what the servers have found out since the last call.
std::string SharedTierPage::tell(std::string what, std::string points_at) {
  PoolPage::tell(std::move(what), std::move(points_at));
  const SharedMetrics was = std::exchange(told_, metrics());
  for (const auto& [count, name, news] : kNews) {
    if (told_.*count == was.*count) continue;
    shown_.reason +=
        fmt::format(" {}: {}.", news, kv::count_of(told_.*count - was.*count, "block"));
  }
  if (const int64_t num_put = told_.num_put - was.num_put; num_put > 0) {
    shown_.reason += fmt::format(" The store gets {}.", kv::count_of(num_put, "block"));
  }
  if (told_.num_unreachable > was.num_unreachable) shown_.reason += " The store does not answer.";
  shown_.trip.asked = told_.num_queried - was.num_queried;
  shown_.trip.fetched = told_.num_fetched - was.num_fetched;
  shown_.trip.loaded = shown_.trip.fetched - (told_.num_checked - was.num_checked);
  shown_.trip.refused = told_.num_damaged > was.num_damaged ? shown_.trip.fetched : -1;
  return shown_.reason;
}

SharedMetrics SharedTierPage::metrics() const {
  SharedMetrics all;
  for (const auto& server : servers_) {
    const SharedMetrics& its = server->tier.metrics();
    for (auto count :
         {&SharedMetrics::num_queried, &SharedMetrics::num_fetched, &SharedMetrics::num_damaged,
          &SharedMetrics::num_unreachable, &SharedMetrics::num_put, &SharedMetrics::num_not_put,
          &SharedMetrics::num_checked, &SharedMetrics::num_poisoned}) {
      all.*count += its.*count;
    }
  }
  return all;
}

std::vector<viz::Counter> SharedTierPage::counters() const {
  const SharedMetrics now = metrics();
  std::vector<viz::Counter> all{
      {"put", now.num_put, "put in the store", "Blocks that the servers have put into the store."},
      {"fetched", now.num_fetched, "fetched", "Blocks that came from the store, whole."},
      {"found", shown_.loaded, "tokens found", "Tokens that requests did not compute."},
      {"one.computed", servers_[0]->computed, "computed by one", "Tokens, by server one."},
      {"two.computed", servers_[1]->computed, "computed by two", "Tokens, by server two."},
      {"values", std::ssize(store_.values.values())},
      {"asked_for", now.num_queried},
      {"checked", now.num_checked},
      {"unreachable", now.num_unreachable}};
  for (const auto& [number, name, news] : kNews) all.push_back({name, now.*number});
  for (const Asked& asked : shown_.asked) {
    all.push_back({asked.name + ".found", asked.num_cached});
    all.push_back({asked.name + ".ended", asked.doing == "has ended"});
  }
  return all;
}

/// A block of a device that can be found holds its tokens, unless it came poisoned.
void SharedTierPage::check_invariants() const {
  for (const auto& server : servers_) {
    server->scheduler.check();
    server->tier.manager().check();
    viz::check_found(server->tier.manager().pool().index(), [&](int32_t id, auto tokens) {
      return poisoned_ || lesson12::has_numbers(server->cache, id, tokens);
    });
  }
}

/// The value that was clicked, or the first one of the store; empty if there is none.
std::string SharedTierPage::chosen_value() const {
  if (const size_t space = selected().find(' '); space != std::string::npos) {
    const std::string name = selected().substr(space + 1);
    if (find_value(name) != nullptr) return name;
  }
  std::string first;
  for (const auto& [block, label] : by_name_) {
    if (!store_.values.values().contains(block)) continue;
    if (first.empty() || label.second < first) first = label.second;
  }
  return first;
}

/// When no server works: what one server has computed comes to the other one.
std::vector<viz::Button> SharedTierPage::actions() const {
  const bool one = has_work(0), two = has_work(1), idle = !one && !two;
  const std::string fresh = shown_.asked.free_name();
  const bool full = !shown_.asked.why_not_add(fresh).empty();
  const std::string last = shown_.asked.empty() ? fresh : chosen(shown_.asked);
  const Asked* const known = shown_.asked.find(last);
  const bool two_lacks_it = known != nullptr && known->server == 0;
  const std::string value = chosen_value();
  const std::string next = full ? shown_.asked.names().front() : fresh;  // or a text comes again
  const std::string to_one = fmt::format("submit one {} 14 1", next);
  const std::string to_two = fmt::format("submit two {} 14 1", last);
  std::vector<viz::Button> row{
      {"pass", "Pass", one || !two ? "pass one" : "pass two", "", 'P', !idle},
      {"new one", full ? next + " to one" : "New to one", to_one, "", 'N', idle && !two_lacks_it},
      {"same two", "Same to two", to_two, "", 'S', idle && two_lacks_it}};
  if (value.empty()) return row;
  row.push_back({"damage", "Damage", "change damage " + value,
                 "A bit of " + value + " flips in the store.", 'D'});
  row.push_back({"poison", "Poison", "change poison " + value,
                 value + " gets other K and V in the store, with the right checksum.", 'O'});
  return row;
}

void SharedTierPage::draw(viz::Ui& ui) {
  form(ui, {"submit", "Submit", "submit"});
  buttons(ui, {{"pass one", "Pass of one", "pass one"}, {"pass two", "Pass of two", "pass two"}});
  if (const std::string value = chosen_value(); !value.empty()) {
    buttons(ui,
            {{"lose", "Lose " + value, "change lose " + value, "The store evicts " + value + "."}});
  }
  choice(ui, "The store",
         {{"store back", "answers", "store back"}, {"store gone", "is gone", "store gone"}});
  const auto pool = [&](const char* how) {
    return fmt::format("pool {} {}", settings_.blocks, how);
  };
  choice(ui, "Writers",
         {{"pool open", "anyone", pool("open 0")},
          {"pool secret", "with a secret", pool("secret 0")},
          {"pool check", "all are checked", pool("open 1")}});
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<SharedTierPage>(context);
}

}  // namespace lesson13
