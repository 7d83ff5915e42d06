#include "page_live.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <utility>

#include "common/base/error.h"
#include "page_simulator.h"

namespace lesson05 {

LiveSharing::LiveSharing(kv::Model& model, const kv::Tokenizer& tokenizer,
                         const LiveOptions& options)
    : options_(options),
      tokenizer_(&tokenizer),
      request_{.prompt = tokenizer.encode(options.prompt),
               .max_tokens = options.max_tokens,
               .sampling = {.temperature = 0.8f, .seed = options.seed},
               .stop_token_ids = model.config().eos_token_ids},
      engine_(model, {.block_size = options.block_size, .num_blocks = options.num_blocks}) {
  if (options.prompt.empty()) kv::user_error("the prompt is empty: give at least one character");
  if (options.n < 1 || options.n > kMaxSequences) {
    kv::user_error("{} sequences: wanted 1 to {}", options.n, kMaxSequences);
  }
  run_ = std::make_unique<viz::LiveRun>([this](const kv::TokenCallback& on_token) {
    if (!options_.beams) {
      engine_.sample(request_, options_.n, on_token);
      return;
    }
    engine_.beam_search(request_, {.num_beams = options_.n}, [&](std::span<const kv::Beam> beams) {
      beams_.assign(beams.begin(), beams.end());
      return on_token(0, beams.empty() ? 0 : beams.front().tokens.back());
    });
  });
  step();
}

bool LiveSharing::step() {
  const BlockManager* before = engine_.manager();
  const int64_t copies = before ? before->num_copies() : 0;
  const int used = before ? before->pool().num_used() : 0;
  if (!run_->step()) {
    story_ = "the run has ended: all its blocks are free again";
    return false;
  }
  if (!run_->error().empty()) kv::user_error("the run failed: {}", run_->error());
  if (engine_.manager()) tell(copies, used);
  return true;
}

/// "sample C: \" time\"; 3 blocks copied on write, 8 blocks in use, 20 as copies".
void LiveSharing::tell(int64_t copies_before, int used_before) {
  const BlockManager& manager = this->manager();
  if (finished()) {
    story_ = fmt::format("the run has ended: {} free again", count_of(used_before, "block"));
    return;
  }
  if (options_.beams) {
    story_ = fmt::format("{} go on; the best ends in \"{}\"",
                         count_of(static_cast<int64_t>(beams_.size()), "beam"),
                         beams_.empty() ? "" : text(beams_.front().tokens.back()));
  } else {
    const viz::LiveRun::Token& token = run_->tokens().back();
    story_ = fmt::format("{} draws \"{}\"", sequence_name(static_cast<int>(token.request)),
                         text(token.id));
  }
  if (const int64_t copies = manager.num_copies() - copies_before; copies > 0) {
    story_ += fmt::format("; {} copied on write", count_of(copies, "block"));
  }
  const int used = manager.pool().num_used();
  if (used != used_before) {
    story_ += fmt::format("; {} in use, {} as copies", count_of(used, "block"),
                          manager.pool().num_references());
  }
}

std::vector<std::vector<int32_t>> LiveSharing::generated() const {
  std::vector<std::vector<int32_t>> generated;
  if (options_.beams) {
    for (const kv::Beam& beam : beams_) generated.push_back(beam.tokens);
    return generated;
  }
  generated.resize(static_cast<size_t>(options_.n));
  for (const viz::LiveRun::Token& token : run_->tokens()) {
    generated.at(token.request).push_back(token.id);
  }
  return generated;
}

std::vector<LiveSharing::Sequence> LiveSharing::sequences() const {
  std::vector<Sequence> sequences;
  const std::vector<std::vector<int32_t>> generated = this->generated();
  for (size_t i = 0; i < generated.size(); ++i) {
    if (engine_.sequence_of(i) < 0) continue;
    Sequence sequence{static_cast<int>(i), engine_.sequence_of(i), request_.prompt};
    sequence.tokens.insert(sequence.tokens.end(), generated[i].begin(), generated[i].end());
    sequences.push_back(std::move(sequence));
  }
  return sequences;
}

std::string LiveSharing::text(int32_t token) const { return viz::token_text(*tokenizer_, token); }

std::vector<std::string> LiveSharing::texts() const {
  std::vector<std::string> texts;
  for (const std::vector<int32_t>& tokens : generated()) {
    std::string text;
    for (const int32_t token : tokens) text += this->text(token);
    texts.push_back(std::move(text));
  }
  return texts;
}

int64_t LiveSharing::num_generated() const {
  int64_t sum = 0;
  for (const std::vector<int32_t>& tokens : generated()) {
    sum += static_cast<int64_t>(tokens.size());
  }
  return sum;
}

void LiveSharing::check() const {
  manager().check();
  std::map<int64_t, int32_t> token_of_slot;
  for (const Sequence& sequence : sequences()) {
    const BlockTable& table = manager().table(sequence.number);
    if (table.num_tokens() > static_cast<int>(sequence.tokens.size())) {
      throw std::logic_error("a sequence of the engine has more slots than tokens");
    }
    for (int t = 0; t < table.num_tokens(); ++t) {
      const int32_t token = sequence.tokens[static_cast<size_t>(t)];
      const auto [entry, added] = token_of_slot.emplace(table.slot(t), token);
      if (!added && entry->second != token) {
        throw std::logic_error(fmt::format("slot {} is shared by two tokens", table.slot(t)));
      }
    }
  }
}

}  // namespace lesson05
