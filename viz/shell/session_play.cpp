// How a session plays a scenario: when it shows a sentence, and when it does the next step.

#include <algorithm>

#include "common/error.h"
#include "viz/shell/session.h"

namespace viz {

constexpr double kLead = 0.8;  // seconds for which a sentence stands before something moves

double seconds_to_read(std::string_view sentence) {
  return sentence.empty()
             ? 0
             : 1.2 + 0.28 * (1.0 + static_cast<double>(std::ranges::count(sentence, ' ')));
}

bool Session::step() {
  const std::string caption = caption_;
  bool done = false;
  try {
    done = play_step();
  } catch (const kv::UserError&) {  // run() has told it
    playing = false;
    return false;
  }
  if (!done && at_end()) {
    if (playing && page_->waits()) return false;
    if (!page_->next_step().empty()) done = try_run(page_->next_step());
  }
  if (!can_step() || !done) playing = false;
  waited_ = 0;
  const bool says_more = !at_end() && scenario()->commands[position()].verb == "say";
  if (caption_ != caption) shown_ = 0;
  wait_ = caption_ == caption && !says_more
              ? seconds_per_step
              : std::max(seconds_per_step, seconds_to_read(caption_) - shown_);
  return done;
}

void Session::play_on(size_t steps) {
  for (size_t i = 0; i < steps && play_step(); ++i) {
  }
}

/// The sentence that comes before the next command; null if there is none.
const std::string* Session::next_sentence() const {
  if (at_end()) return nullptr;
  const Command& next = scenario()->commands[position()];
  const bool is_new = next.verb == "say" && !next.args.empty() && next.args[0] != caption_;
  return is_new ? &next.args[0] : nullptr;
}

bool Session::is_due(double seconds) const {
  return playing && waited_ + seconds >= wait_ && !next_sentence();
}

std::string Session::next_verb() const {
  for (size_t i = position(); !at_end() && i < scenario()->commands.size(); ++i) {
    const std::string& verb = scenario()->commands[i].verb;
    if (verb != "say" && verb != "expect") return verb;
  }
  const std::string own = page_->next_step();
  return own.substr(0, own.find(' '));
}

void Session::advance(double seconds) {
  waited_ += seconds;
  shown_ += seconds;
  if (!playing || waited_ < wait_) return;
  if (const std::string* const sentence = next_sentence()) {
    caption_ = *sentence;
    ++place_.position;
    waited_ = shown_ = 0;
    wait_ = kLead;
  } else {
    step();
  }
}

}  // namespace viz
