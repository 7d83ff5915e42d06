#pragma once

// The page of lesson 11: three kinds of memory, blocks that sink and rise, and requests that wait
// for them or run. page.cpp: what its commands do; page_passes.cpp: passes, restarts, live runs;
// page_shown.cpp: what the pools hold, and what has happened; page_scene.cpp, page_shelves.cpp and
// page_requests.cpp: what it shows.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "page_live.h"
#include "page_memory.h"
#include "viz/names.h"
#include "viz/page.h"
#include "viz/parts.h"

namespace lesson11 {

/// What a request of a conversation does in a pass.
enum class Doing { kNothing, kWaits, kFetches, kLoads, kPrompt, kDecodes, kPreempted, kEnded };

/// A conversation: a text that grows. Whenever a request of it comes, its prompt is how the text
/// begins.
struct Asked : viz::SequenceView {
  int64_t id = -1;  // of its last request
  int num_prompt = 0, max_tokens = 0, generated = 0;
  int num_known = 0;               // tokens
  int num_computed = 0;            // of these, tokens whose K and V are there
  int num_cached = 0;              // of these, found when it started
  std::vector<int32_t> text = {};  // also what is still to be generated, if that is known
  BlockHashes hashes = {};         // of the text
  std::vector<int> found = {};     // [blocks found when it came] shelf: 0 is the device
  std::vector<int32_t> ids = {};   // its table
  std::string words = {};          // of a live run: what it has generated
  Doing doing = Doing::kNothing;   // in the last pass
  std::vector<Doing> marks = {};   // [passes]
  bool is_there() const { return doing != Doing::kNothing && doing != Doing::kEnded; }
};

/// A block of a pool.
struct Cell {
  bool used = false;      // a request holds it, or it is being copied
  bool cached = false;    // can be found
  bool has_copy = false;  // further down, or on its way there
  int order = -1;         // in the free queue; 0: overwritten next
  int hue = -1;           // of the conversation that it is of
  std::string name;       // "A2": of A's text the block after two others
};
struct Shelf {
  std::string name;
  std::vector<Cell> cells;  // [num_blocks + 1]
  const Cell& at(int32_t id) const { return cells.at(static_cast<size_t>(id)); }
};
/// A block under way between shelf `tier` and the one below.
struct Moving {
  int tier = 0;
  Way way = Way::kDown;
  Ticket ticket = 0;
  BlockMove blocks;
  bool copied = false;  // it has had its turn
  int hue = -1;
  std::string name;
};
/// What a picture is made of, of two commands for the motion between them.
struct Shown {
  viz::NamedList<Asked> asked{"conversation", 6};
  std::vector<Shelf> shelves = {};  // the device's, and one for each tier
  std::vector<Moving> moving = {};
  std::vector<std::vector<LinkTraffic>> traffic = {};  // [tiers][passes] blocks copied
  std::array<int64_t, 3> hits = {};                    // tokens: device, host, file
  int num_passes = 0, num_rows = 0;                    // rows: of the last pass
  int64_t computed = 0;                                // rows of all passes
  int64_t lost = 0;  // blocks of which no pool has a copy any more
  std::string reason = {}, points_at = {};
  bool has_passed = false;  // by the last command
};

class TiersPage : public viz::Page {
 public:
  explicit TiersPage(const viz::PageContext& context);

  void reset() override;
  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override;
  void draw(viz::Ui& ui) override;

 protected:
  void changed() override;
  void refused(const viz::Command& command, const std::string& why) override;

 private:
  // page.cpp
  void declare_requests();
  void declare_pools();
  void declare_settings();
  void declare_live();
  std::string clear(const PageSettings& settings);
  std::string change(const PageSettings& settings);
  std::string why_not_submit(const viz::Words& words) const;
  std::string submit(const viz::Words& words);
  std::optional<int32_t> record_of(const std::string& block) const;
  std::string flip(int32_t record);
  std::string restart();
  std::string flush();
  void make_pools();

  // page_passes.cpp
  bool has_work() const;
  std::string passes(int count);
  void run_pass();
  void write(const Chunk& chunk);
  void note_pass();
  void note_start(const Asked& asked);
  std::string live(const std::string& prompt, int max_tokens);
  void note_live_pass();
  void note_arrivals();

  // page_shown.cpp
  const TieredManager& manager() const;      // of the page, or of the engine while it runs
  const TieredScheduler* scheduler() const;  // null: the live run has ended
  const BlockPool& pool(int shelf) const;
  int num_shelves() const { return manager().num_tiers() + 1; }
  bool is_there(int64_t id) const;
  std::vector<int> found_now(std::span<const int32_t> prompt) const;
  Doing doing_of(const Asked& asked) const;
  void look();
  void look_at(Asked& asked);
  Shelf shelf_now(int shelf) const;
  std::vector<Moving> moving_now() const;
  void tell_pass(const Shown& was);
  bool tell_waiting(const Shown& was);
  bool tell_blocks(const Shown& was);
  std::string others_run(const Asked& asked) const;
  std::string told_of_found(const Asked& asked) const;

  friend class Picture;  // page_picture.h

  PageSettings settings_;
  ScratchFile file_;
  std::unique_ptr<PageMemory> memory_;
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<TieredManager> manager_;      // borrows the pool; its tiers borrow the memory
  std::unique_ptr<TieredScheduler> scheduler_;  // borrows the manager
  SchedulerOutput last_;                        // the last pass
  std::map<uint64_t, std::pair<int, std::string>> names_;  // of blocks by hash: hue and name
  int64_t next_id_ = 0;
  int64_t num_damaged_ = 0;  // blocks that the page has told of
  bool waited_ = false;      // the last pass, for a copy
  std::map<std::string, std::vector<int>>
      coming_;  // of a live run: what its next request will find
  LiveTiers live_;
  Shown shown_;         // as it is, while a command runs
  Shown before_, now_;  // before and after the last command
};

}  // namespace lesson11
