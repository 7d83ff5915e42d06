#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "lookahead.h"
#include "viz/drawing/pool_motion.h"

namespace lesson09 {
namespace {

/// The lesson's drafter. It guesses nothing if before() returns false.
class WatchedDrafter : public NgramDrafter {
 public:
  explicit WatchedDrafter(std::function<bool()> before) : before_(std::move(before)) {}
  std::vector<int32_t> propose(int64_t id, std::span<const int32_t> tokens,
                               int max_guesses) override {
    if (!before_()) return {};
    return NgramDrafter::propose(id, tokens, max_guesses);
  }

 private:
  std::function<bool()> before_;
};

}  // namespace

Serving::Serving(const PageSettings& settings)
    : pool(settings.num_blocks, settings.block_size, default_serve_options().free_order),
      manager(pool),
      scheduler(manager, pool, drafter, {}, {.num_guesses = settings.num_guesses}) {}

void Serving::draw(const Asked& asked, int num_rows) {
  int& drawn = num_drawn[asked.id];
  for (int row = 0; row < num_rows; ++row) {
    const size_t next = asked.num_prompt + drawn;
    if (next == asked.text.size() || !scheduler.wants_token(asked.id)) return;
    scheduler.add_token(asked.id, asked.text[next]);
    if (++drawn == asked.max_tokens) scheduler.finish(asked.id);
  }
}

void LiveLookahead::serve(const PageSettings& settings, const std::string& prompt, int max_tokens) {
  auto drafter = std::make_unique<WatchedDrafter>([this] {
    // The first guess comes before the first pass, and the page does not know the scheduler yet.
    if (scheduler() == nullptr) return true;
    guesses_ = true;
    const bool goes_on = stand_still();
    guesses_ = false;
    return goes_on;
  });
  auto engine = std::make_unique<LookaheadEngine>(
      model(),
      lesson03::PagedOptions{.block_size = settings.block_size, .num_blocks = settings.num_blocks},
      default_serve_options(), LookaheadOptions{.num_guesses = settings.num_guesses},
      std::move(drafter));
  LiveServer::serve(std::move(engine), {request(prompt, max_tokens)}, {});
}

std::string LookaheadPage::step(int count) {
  std::string told;
  for (int i = 0; i < count; ++i) {
    if (live_.running() ? live_.finished() : serving_->scheduler.idle()) break;
    told = live_.running() ? live_step() : shown_.composed ? pass() : guess();
  }
  return told;
}

std::string LookaheadPage::guess() { return compose(serving_->scheduler.schedule()); }

/// Runs the pass; each request draws the next tokens of its given answer.
std::string LookaheadPage::pass() {
  if (!shown_.composed) guess();
  if (!shown_.composed) return shown_.reason;
  const std::vector<Part>& parts = shown_.passes.back();
  std::vector<Chunk> chunks;
  for (const Part& part : parts) chunks.push_back({part.id, part.num_rows});
  serving_->scheduler.update(chunks);
  for (const Part& part : parts) serving_->draw(shown_.of(part.id), 1 + part.num_guesses());
  return judge();
}

/// The engine goes on to its next stop: before a guess, or before a pass.
std::string LookaheadPage::live_step() {
  live_.step();
  std::string told = shown_.composed ? judge() : "";
  return live_.pass() == nullptr ? told : compose(*live_.pass());
}

/// Notes the parts of the next pass.
std::string LookaheadPage::compose(const SchedulerOutput& output) {
  std::vector<Part> parts;
  for (const Chunk& chunk : output.chunks) parts.push_back(part_of(chunk));
  if (parts.empty()) return tell("Too few blocks are free: all requests wait, and nothing runs.");
  shown_.passes.push_back(parts);
  shown_.composed = true;
  refresh();
  return tell_guess(*std::ranges::max_element(parts, {}, &Part::proposed));
}

Part LookaheadPage::part_of(const Chunk& chunk) const {
  constexpr NgramOptions kNgrams;  // the drafter's
  const Asked& asked = *std::ranges::find(shown_.asked, chunk.id, &Asked::id);
  const std::span<const int32_t> known = asked.known();
  const size_t found = find_continuation(known, kNgrams);
  const auto guesses = scheduler().guesses(chunk.id);
  Part part{.id = chunk.id,
            .hue = asked.hue,
            .name = asked.name,
            .first = scheduler().request(chunk.id).num_computed,
            .num_rows = chunk.num_tokens,
            .guesses = {guesses.begin(), guesses.end()}};
  if (found == known.size()) return part;
  const int room = std::min(settings_.num_guesses, asked.max_slots() - asked.num_known());
  part.found = static_cast<int>(found);
  part.proposed = std::clamp(asked.num_known() - part.found, 0, std::max(room, 0));
  while (part.length < std::min(part.found, kNgrams.longest) &&
         known[found - 1 - static_cast<size_t>(part.length)] ==
             known[known.size() - 1 - static_cast<size_t>(part.length)]) {
    ++part.length;
  }
  return part;
}

/// Notes the tokens that a finished pass has drawn, and how many of them were guessed.
std::string LookaheadPage::judge() {
  const Shown was = shown_;
  std::vector<Part>& parts = shown_.passes.back();
  for (Part& part : parts) judge(part);
  shown_.composed = false;
  catch_up();
  refresh();
  return tell_pass(*std::ranges::max_element(parts, {}, &Part::num_guesses), was);
}

void LookaheadPage::judge(Part& part) {
  Asked& asked = shown_.of(part.id);
  const int before = asked.num_known();
  if (live_.running()) {
    viz::follow_answer(asked, live_);
    asked.text = live_.tokens(0);
  } else {
    asked.generated = serving_->num_drawn[part.id];
  }
  part.drawn = asked.num_known() - before;
  const std::span<const int32_t> known = asked.known();
  const auto wrong =
      std::mismatch(part.guesses.begin(), part.guesses.end(), known.begin() + before, known.end());
  part.accepted = static_cast<int>(wrong.first - part.guesses.begin());
  num_accepted_ += part.accepted;
}

/// Runs the same requests without guesses, until each of them has drawn the same number of tokens.
void LookaheadPage::catch_up() {
  LookaheadScheduler& scheduler = without_->scheduler;
  const auto is_behind = [&](const Asked& asked) {
    return without_->num_drawn[asked.id] < asked.generated;
  };
  while (std::ranges::any_of(shown_.asked, is_behind)) {
    const std::vector<Chunk> chunks = scheduler.schedule().chunks;
    if (chunks.empty()) continue;  // all of it was preempted
    scheduler.update(chunks);
    for (const Chunk& chunk : chunks) without_->draw(shown_.of(chunk.id), 1);
    ++shown_.num_without;
  }
}

/// Copies the current state of all requests.
void LookaheadPage::refresh() {
  for (Asked& asked : shown_.asked) {
    viz::follow(asked, &scheduler(), manager());
    asked.num_slots = asked.ids.empty() ? 0 : manager().table(asked.id).num_tokens();
    // An engine that is about to guess has slots for a pass that the page does not know yet.
    if (!shown_.composed) asked.num_slots = std::min(asked.num_slots, asked.num_computed);
  }
  shown_.free.clear();
  for (const lesson07::KvBlock* block : pool().queue().all()) shown_.free.push_back(block->id);
}

Shown LookaheadPage::look() {
  refresh();
  Shown now = shown_;
  tell("");
  return now;
}

std::string LookaheadPage::slot_id(const Asked& asked, int position) const {
  const size_t index = position / settings_.block_size;
  if (index >= asked.ids.size()) return {};
  return viz::slot_id(asked.ids[index], position % settings_.block_size);
}

/// Why a request has its guesses, or none.
std::string LookaheadPage::tell_guess(const Part& part) {
  const Asked& asked = shown_.of(part.id);
  const int known = asked.num_known(), laid = part.num_guesses();
  const std::string last = slot_id(asked, known - 1), first = slot_id(asked, known);
  if (laid > 0 && laid == part.proposed) {
    const auto ngram = words(std::span(asked.known()).last(part.length));
    return tell(fmt::format("{} ends with \"{}\", as before: it guesses the {} that came next.",
                            part.name, fmt::join(ngram, " "), kv::count_of(laid, "token")),
                first);
  }
  std::string why;
  if (settings_.num_guesses == 0) {
    why = "Guesses are switched off: a pass gives a token.";
  } else if (known >= asked.max_slots()) {
    why = fmt::format("The next token of {} is its last: there is nothing to guess.", part.name);
  } else if (part.proposed == 0) {
    why = fmt::format("No guess: the last two tokens of {} have not come before.", part.name);
  } else if (!scheduler().waiting().empty()) {
    why = fmt::format("A request waits for blocks, so {} takes none for guesses.", part.name);
  }
  if (!why.empty()) return tell(why, last);
  const std::string some =
      laid == 0 ? "no guess" : fmt::format("{} of {} guesses", laid, part.proposed);
  return tell(fmt::format("No block is free: {} of {} {} a slot. No request gives way for a guess.",
                          some, part.name, laid > 1 ? "have" : "has"),
              laid == 0 ? last : first);
}

/// Tells what a pass said of a request's guesses.
std::string LookaheadPage::tell_pass(const Part& part, const Shown& was) {
  const Asked& asked = shown_.of(part.id);
  const int first = part.first_guess(), count = part.num_guesses();
  const std::string gets = fmt::format("{} gets {}", part.name, kv::count_of(part.drawn, "token"));
  const std::string request = "request " + part.name;
  if (count == 0) return tell(gets + " from this pass, which had no guess to check.", request);
  if (part.accepted == count) {
    return tell(fmt::format("{} from one pass: the model agrees with {} of {}.", gets, count,
                            kv::count_of(count, "guess")),
                asked.ended ? request : slot_id(asked, first + count - 1));
  }
  std::string words = fmt::format("The model says \"{}\" and not \"{}\": {} drops {}",
                                  word(asked.known().back()), word(part.guesses[part.accepted]),
                                  part.name, kv::count_of(count - part.accepted, "guess"));
  if (asked.ended || asked.waits()) return tell(words + ".", request);
  std::string about = slot_id(asked, first + part.accepted);
  for (const int32_t id : was.asked.at(part.name).ids) {  // taken for guesses alone
    if (std::ranges::count(asked.ids, id) > 0) continue;
    words += fmt::format(", and gives back block {}", id);
    about = viz::block_id(id);
  }
  return tell(words + ".", about);
}

}  // namespace lesson09
