#pragma once

// The page of lesson 11: two pools, blocks that are offloaded and loaded, and requests that wait
// for them or run. page.cpp: what its commands do; passes.cpp: passes and live runs; shown.cpp:
// what the pools hold, and what has happened; scene.cpp, shelves.cpp and requests.cpp: what it
// shows.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "live.h"
#include "viz/drawing/parts.h"
#include "viz/names.h"
#include "viz/page.h"

namespace lesson11 {

/// What a request of a conversation does in a pass.
enum class Doing { kNothing, kWaits, kLoads, kPrompt, kDecodes, kPreempted, kEnded };

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
  bool has_copy = false;  // in the host, or on its way there
  int order = -1;         // in the free queue; 0: overwritten next
  int hue = -1;           // of the conversation that it is of
  std::string name;       // "A2": of A's text the block after two others
};
struct Shelf {
  std::string name;
  std::vector<Cell> cells;  // [num_blocks + 1]
  const Cell& at(int32_t id) const { return cells.at(static_cast<size_t>(id)); }
};
/// A block that is to be copied.
struct Moving {
  Way way = Way::kOffload;
  Job job = 0;
  BlockMove blocks;
  int hue = -1;
  std::string name;
};
/// What a picture is made of, of two commands for the motion between them.
struct Shown {
  viz::NamedList<Asked> asked{"conversation", 6};
  std::vector<Shelf> shelves = {};  // the device's, the host's
  std::vector<Moving> moving = {};
  std::vector<Traffic> traffic = {};  // [passes]
  std::array<int64_t, 2> hits = {};   // tokens: device, host
  int num_passes = 0, num_rows = 0;   // rows: of the last pass
  int64_t computed = 0;               // rows of all passes
  int64_t lost = 0;                   // blocks of which no pool has a copy any more
  std::string reason = {}, points_at = {};
  bool has_passed = false;  // by the last command
};

class HostTierPage : public viz::Page {
 public:
  explicit HostTierPage(const viz::PageContext& context);

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
  void make_pools();

  // page_passes.cpp
  bool has_work() const;
  std::string passes(int count);
  void run_pass();
  void write(const lesson08::Chunk& chunk);
  void note_pass();
  void note_start(const Asked& asked);
  std::string live(const std::string& prompt, int max_tokens);
  void note_live_pass();
  void note_arrivals();

  // page_shown.cpp
  const HostTierManager& manager() const;  // of the page, or of the engine while it runs
  const Scheduler* scheduler() const;      // null: the live run has ended
  const BlockPool& pool(int shelf) const;
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

  friend class Picture;  // picture.h

  PageSettings settings_;
  std::unique_ptr<PageMemory> memory_;
  std::unique_ptr<BlockPool> pool_, host_pool_;
  std::unique_ptr<HostTierManager> manager_;               // borrows the pools and the memory
  std::unique_ptr<Scheduler> scheduler_;                   // borrows the manager
  lesson08::SchedulerOutput last_;                         // the last pass
  std::map<uint64_t, std::pair<int, std::string>> names_;  // of blocks by hash: hue and name
  int64_t next_id_ = 0;
  bool waited_ = false;  // the last pass, for a copy
  std::map<std::string, std::vector<int>>
      coming_;  // of a live run: what its next request will find
  LiveTier live_;
  Shown shown_;         // as it is, while a command runs
  Shown before_, now_;  // before and after the last command
};

}  // namespace lesson11
