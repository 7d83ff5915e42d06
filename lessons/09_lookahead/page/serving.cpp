#include "serving.h"

#include <memory>
#include <utility>

namespace lesson09 {

std::vector<int32_t> Asked::known() const {
  std::vector<int32_t> tokens = prompt;
  tokens.insert(tokens.end(), answer.begin(), answer.begin() + num_drawn);
  return tokens;
}

std::vector<int32_t> WatchedDrafter::propose(int64_t id, std::span<const int32_t> tokens,
                                             int most) {
  if (!before_()) return {};
  std::vector<int32_t> guesses = ngrams_.propose(id, tokens, most);
  drafts_[id] = {.most = most, .tokens = guesses};
  return guesses;
}

Serving::Serving(const PageSettings& settings)
    : pool(settings.num_blocks, settings.block_size, default_serve_options().free_order),
      manager(pool),
      scheduler(manager, pool, drafter, {}, {.num_guesses = settings.num_guesses}) {}

int Serving::give(const Asked& asked, int num_rows) {
  int& drawn = num_drawn[asked.id];
  const int before = drawn;
  while (drawn < before + num_rows && drawn < std::ssize(asked.answer) &&
         scheduler.wants_token(asked.id)) {
    const int32_t token = asked.answer[static_cast<size_t>(drawn++)];
    if (drawn == asked.max_answer) {
      scheduler.finish(asked.id);  // the last one needs no pass
      break;
    }
    scheduler.add_token(asked.id, token);
  }
  return drawn - before;
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
  WatchedDrafter* const watched = drafter.get();
  auto engine = std::make_unique<LookaheadEngine>(
      model(),
      lesson03::PagedOptions{.block_size = settings.block_size, .num_blocks = settings.num_blocks},
      default_serve_options(), LookaheadOptions{.num_guesses = settings.num_guesses},
      std::move(drafter));
  LiveServer::serve(std::move(engine), {request(prompt, max_tokens)}, {});
  drafter_ = watched;
}

void LiveLookahead::step() {
  if (pass() != nullptr) drafter_->clear();  // the guesses of the next pass begin
  LiveServer::step();
}

}  // namespace lesson09
