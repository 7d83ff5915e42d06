#include "live.h"

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

namespace lesson05 {

using kv::count_of;

void LiveSharing::watch(bool beams, int n, const std::string& prompt, int max_tokens,
                        const lesson03::PagedOptions& pool) {
  beams_ = beams;
  best_.clear();
  sequences_.clear();
  copies_told_ = used_told_ = 0;
  kv::Request request = this->request(prompt, max_tokens);
  request.sampling.temperature = 0.8f;
  auto engine = std::make_unique<SharingEngine>(model(), pool);
  if (!beams) return start(std::move(engine), kv::samples_of(request, n));
  SharingEngine& sharing = *engine;
  start(std::move(engine), {request}, [this, n, &sharing](const kv::TokenCallback& on_token) {
    sharing.beam_search(requests()[0], {.num_beams = n}, [&](std::span<const kv::Beam> beams_now) {
      best_.assign(beams_now.begin(), beams_now.end());
      return on_token(0, best_.empty() ? 0 : best_.front().tokens.back());
    });
  });
}

std::string LiveSharing::story() {
  follow();
  const int used_before = std::exchange(used_told_, manager().pool().num_used());
  const int64_t copies =
      manager().num_copies() - std::exchange(copies_told_, manager().num_copies());
  if (finished()) {
    return fmt::format("the run has ended: {} free again", count_of(used_before, "block"));
  }
  const viz::LiveRun::Token& token = Live::generated().back();
  std::string story =
      fmt::format("{} draws \"{}\"", viz::letters(static_cast<int>(token.request)), word(token.id));
  if (beams_) story = count_of(std::ssize(best_), "beam") + " go on";
  if (beams_ && !best_.empty()) {
    const Sequence& best = *std::ranges::max_element(sequences_, {}, &Sequence::log_prob);
    story += fmt::format("; {} is the likeliest (log probability {:.2f}) and ends in \"{}\"",
                         best.name, best.log_prob, word(best.tokens.back()));
  }
  if (copies > 0) story += fmt::format("; {} copied on write", count_of(copies, "block"));
  return story;
}

void LiveSharing::follow() {
  std::vector<Sequence> now(beams_ ? best_.size() : requests().size());
  for (size_t i = 0; i < now.size(); ++i) {
    Sequence& sequence = now[i];
    sequence.number = engine<SharingEngine>().sequence_of(i);
    if (beams_) {
      sequence.tokens = requests()[0].prompt;
      std::ranges::copy(best_[i].tokens, std::back_inserter(sequence.tokens));
      sequence.log_prob = best_[i].log_prob;
    } else {
      sequence.tokens = tokens(i);
      sequence.hue = static_cast<int>(i);
      sequence.name = sequence.origin = viz::letters(sequence.hue);
    }
  }
  if (beams_) name_heirs(now);
  sequences_ = std::move(now);
}

/// Beams are ranked again at every step, so the tokens say which beam continues which.
void LiveSharing::name_heirs(std::vector<Sequence>& heirs) const {
  std::vector<Sequence> named = sequences_;  // their names are not given to other beams
  std::vector<bool> has_heir(sequences_.size(), false);
  for (Sequence& heir : heirs) {
    const auto parent = std::ranges::find_if(sequences_, [&](const Sequence& old) {
      return old.tokens.size() <= heir.tokens.size() &&
             std::ranges::equal(old.tokens, std::span(heir.tokens).first(old.tokens.size()));
    });
    if (parent == sequences_.end()) continue;
    heir.parent = parent - sequences_.begin();
    heir.origin = parent->origin;
    if (has_heir[heir.parent]) continue;
    has_heir[heir.parent] = true;
    heir.name = parent->name;
    heir.hue = parent->hue;
  }
  for (Sequence& heir : heirs) {
    if (!heir.name.empty()) continue;
    while (std::ranges::count(named, heir.hue, &Sequence::hue) > 0) ++heir.hue;
    heir.name = viz::letters(heir.hue);
    if (heir.origin.empty()) heir.origin = heir.name;
    named.push_back(heir);
  }
  std::ranges::stable_sort(heirs, {}, &Sequence::parent);
}

int64_t LiveSharing::num_generated() const {
  int64_t sum = 0;
  if (!running()) return sum;
  for (const Sequence& one : sequences_)
    sum += std::ssize(one.tokens) - std::ssize(requests()[0].prompt);
  return sum;
}

void LiveSharing::check() const {
  manager().check();
  std::map<int64_t, int32_t> token_of_slot;
  for (const Sequence& sequence : sequences_) {
    if (sequence.number < 0) continue;
    const BlockTable& table = manager().table(sequence.number);
    if (table.num_tokens() > static_cast<int>(sequence.tokens.size())) {
      throw std::logic_error("a sequence of the engine has more slots than tokens");
    }
    for (int t = 0; t < table.num_tokens(); ++t) {
      const int32_t token = sequence.tokens[t];
      const auto [entry, added] = token_of_slot.emplace(table.slot(t), token);
      if (!added && entry->second != token) {
        throw std::logic_error(fmt::format("slot {} is shared by two tokens", table.slot(t)));
      }
    }
  }
}

}  // namespace lesson05
