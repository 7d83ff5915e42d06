#pragma once

// The page of lesson 11: two pools, blocks that are offloaded and loaded, and requests that wait
// for them or run. page.cpp: what its commands do; passes.cpp: passes and live runs; shown.cpp:
// what the pools hold, and what has happened; scene.cpp: the picture.

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "live.h"
#include "viz/drawing/shelves.h"
#include "viz/known_texts.h"
#include "viz/pool_page.h"

namespace lesson11 {

/// A conversation.
struct Asked : viz::TextRequest {
  BlockHashes hashes = {};               // of the text
  std::vector<int> found = {};           // [blocks found when it came] shelf: 0 is the device
  std::optional<viz::State> doing = {};  // in the last pass; kReserved: it waits for its blocks
};

inline bool runs(std::optional<viz::State> doing) {
  return doing == viz::State::kPrompt || doing == viz::State::kDecode;
}

/// A block that is to be copied.
struct Copying {
  std::string id;        // unique: "copy 3.7"
  bool down = true;      // to the host
  std::string from, to;  // blocks of the shelves
  std::string name = {};
};

/// The state that a picture shows. The states of two commands give the motion between them.
struct Shown {
  viz::NamedList<Asked> asked{"conversation", 6};
  viz::ShelfBlocks shelves[2] = {};  // the device's, the host's
  std::vector<Copying> copies = {};
  int64_t offloaded = 0;  // blocks, on their way or there
  int num_passes = 0;
  int64_t computed = 0;  // rows of all passes
  int64_t loaded = 0;    // tokens that the host had, not computed again
  int64_t lost = 0;      // blocks of which no pool has a copy any more
  std::string reason = {}, points_at = {};

  int64_t num_to_offload() const { return std::ranges::count(copies, true, &Copying::down); }
};

class HostTierPage : public viz::PoolPage<Shown, PageSettings, LiveTier> {
 public:
  explicit HostTierPage(const viz::PageContext& context);

  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override;
  std::vector<viz::Button> actions() const override;
  void draw(viz::Ui& ui) override;

 private:
  // page.cpp
  std::vector<viz::Verb> requests();
  std::vector<viz::Verb> settings();
  std::string begin() override;
  std::string why_not_submit(const std::string& name, int num_prompt, int max_tokens) const;
  const Asked* longest_away() const;
  std::string submit(const std::string& name, int num_prompt, int max_tokens);

  // passes.cpp
  bool has_work() const;
  std::string passes(int count);
  void run_pass();
  void note_pass();
  std::string live(const std::string& prompt, int max_tokens);
  void live_pass();

  // Of the engine during a live run, else of the page.
  const HostTierManager& manager() const {
    return live_.running() ? live_.server().manager() : *manager_;
  }
  /// Null when the live run has ended.
  const Scheduler* scheduler() const {
    return live_.running() ? live_.scheduler() : scheduler_.get();
  }

  // shown.cpp
  std::vector<int> found_now(std::span<const int32_t> prompt) const;
  Shown look() override;
  void refresh();
  void refresh(Asked& asked);
  void note_loads();
  void note_copies();
  void tell_pass(const Shown& was);
  bool tell_waiting(const Shown& was);
  bool tell_blocks(const Shown& was);
  std::string others_run(const Asked& asked) const;

  std::unique_ptr<PageMemory> memory_;
  std::unique_ptr<DevicePool> pool_;
  std::unique_ptr<BlockPool> host_pool_;
  std::unique_ptr<HostTierManager> manager_;   // borrows the pools and the memory
  std::unique_ptr<Scheduler> scheduler_;       // borrows the manager
  lesson08::SchedulerOutput last_;             // the last pass
  std::map<uint64_t, viz::BlockLabel> names_;  // of blocks by hash
  std::map<int32_t, viz::BlockLabel> loads_;   // the same, by the device's block
  int64_t next_id_ = 0;
  bool waited_ = false;  // whether the last pass waited for a copy
};

}  // namespace lesson11
