#pragma once

// The page of lesson 09: guesses laid into slots, accepted or struck out. page.cpp: what its
// commands do; passes.cpp: what a guess and a pass have done, of its own scheduler or of a live
// engine; scene.cpp, lanes.cpp and history.cpp: what it shows.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "serving.h"
#include "viz/pool_page.h"

namespace lesson09 {

/// A request's share of a pass.
struct Part {
  int64_t id = 0;
  int hue = 0;
  std::string name = {};
  int first = 0;                      // position of its first token
  int num_rows = 0;                   // of known tokens
  std::vector<int32_t> guesses = {};  // in the rows after them
  int proposed = 0;                   // by the drafter; some may have no slot
  int most = -1;                      // guesses asked for; -1 if the drafter was not asked
  int found = 0, length = 0;          // the n-gram that came before ends before token `found`
  int accepted = 0, drawn = 0;        // known when the pass has run

  int num_guesses() const { return static_cast<int>(guesses.size()); }
  int first_guess() const { return first + num_rows; }
};

/// The state that a picture shows. The states of two commands give the motion between them.
struct Shown {
  viz::NamedList<Asked> asked{"request", 4};
  std::vector<int32_t> free = {};  // blocks, the next one first
  int num_passes = 0;
  bool composed = false;  // whether the next pass is composed
};

class LookaheadPage : public viz::PoolPage<Shown, PageSettings, LiveLookahead> {
 public:
  explicit LookaheadPage(const viz::PageContext& context);

  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override;
  void draw(viz::Ui& ui) override;

 private:
  // page.cpp
  std::vector<viz::Verb> requests();
  std::string begin() override;
  std::string why_not_add(const std::string& name, int num_prompt, int num_answer) const;
  std::string add(const std::string& name, const std::string& prompt, const std::string& answer);
  std::string finish(const std::string& name);
  std::string live(const std::string& prompt, int max_tokens);

  // passes.cpp
  std::string guess();
  std::string pass();
  std::string step(int count);
  std::string live_step();
  void compose(const LookaheadScheduler& of, const SchedulerOutput& output,
               const WatchedDrafter& drafter);
  void judge();
  void catch_up();
  Shown look() override;
  std::string told_of_guesses() const;
  std::string told_of_pass() const;
  const KvCacheManager& manager() const;
  const BlockPool& pool() const;
  const LookaheadScheduler* scheduler() const;  // null when the live run has ended
  Asked& asked_of(int64_t id) { return *std::ranges::find(asked_, id, &Asked::id); }
  std::string word(int32_t token) const;
  std::string quoted(std::span<const int32_t> tokens) const;

  friend class Picture;  // picture.h

  std::unique_ptr<Serving> serving_;
  std::unique_ptr<Serving> without_;  // the same requests, and no guesses
  viz::NamedList<Asked> asked_{"request", 4};
  bool composed_ = false;
  std::vector<Part> parts_;  // of the pass that is composed, or of the last one that ran
  std::vector<std::vector<Part>> passes_;  // that ran
  int64_t num_proposed_ = 0, num_accepted_ = 0;
};

}  // namespace lesson09
