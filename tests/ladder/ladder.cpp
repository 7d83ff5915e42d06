#include "ladder.h"

#include <fmt/format.h>

namespace ladder {

std::vector<Rung> climb(kv::Model& model, std::span<const kv::Request> requests,
                        std::span<const Lesson> lessons, const kv::EngineOptions& options,
                        const Watch& watch) {
  std::vector<Rung> rungs;
  for (const Lesson& lesson : lessons) {
    if (watch.on_lesson) watch.on_lesson(lesson);
    const auto engine = lesson.make_engine(model, options);
    Rung rung{lesson.number, lesson.topic, engine->generate(requests, watch.on_token), 0, 0};
    for (const kv::Completion& c : rung.result.completions) {
      if (c.finish == kv::FinishReason::kCancelled) return rungs;
    }
    rung.tokens = kv::num_generated_tokens(rung.result);
    rung.digest = kv::combined_digest(rung.result.completions);
    rungs.push_back(std::move(rung));
  }
  return rungs;
}

std::optional<std::string> first_mismatch(std::span<const Rung> rungs) {
  for (size_t i = 1; i < rungs.size(); ++i) {
    if (rungs[i].digest != rungs[0].digest) {
      return fmt::format(
          "lesson {} gives other bits than lesson {}: logits {:016x} against {:016x}",
          rungs[i].number, rungs[0].number, rungs[i].digest, rungs[0].digest);
    }
    for (size_t r = 0; r < rungs[0].result.completions.size(); ++r) {
      if (rungs[i].result.completions[r].tokens != rungs[0].result.completions[r].tokens) {
        return fmt::format("lesson {} gives other tokens than lesson {} for request {}",
                           rungs[i].number, rungs[0].number, r);
      }
    }
  }
  return std::nullopt;
}

}  // namespace ladder
