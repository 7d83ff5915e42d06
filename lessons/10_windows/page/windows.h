#pragma once

// The page of lesson 10: a table for each group of layers, the window that slides over the tokens,
// and what falls out of it. page.cpp: what its commands do; shown.cpp: what the groups hold and
// have found; lanes.cpp and scene.cpp: what it shows.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine.h"
#include "viz/drawing/lanes.h"
#include "viz/pool_page.h"

namespace lesson10 {

inline constexpr char kPrompt[] = "we sat by the sea and the sun was low";

struct PageSettings {
  int num_blocks = 32;
  int block_size = 4;
  int window = 8;
  int num_sliding = 1;  // groups, besides that of full attention
};

/// A request on the page. All its tokens are computed: a command is a whole pass.
struct Asked : viz::SequenceView {
  int64_t id = 0;     // the coordinator's
  int num_found = 0;  // tokens that it began with
  std::vector<int32_t> tokens = {};
  BlockHashes hashes = {};
  std::vector<std::vector<int32_t>> tables = {};  // [groups][entries], as look() found them
  int num_tokens() const { return static_cast<int>(tokens.size()); }
};

/// The cached blocks of each group when a prompt came.
struct Lookup {
  viz::SequenceView request = {};                    // its name is empty before the first lookup
  int num_blocks = 0;                                // full ones, without the prompt's last token
  std::vector<std::vector<viz::State>> blocks = {};  // [groups][num_blocks] cached, used, or free
  std::vector<int> alone = {};  // [groups] blocks of its longest hit, were it alone
  int num_hit = 0;              // blocks that all groups agreed on
};

/// A block of the pool.
struct Held {
  int group = -1;         // that holds it, or wrote its cached content; -1 means none
  std::vector<int> hues;  // of the requests that hold it
  bool can_be_found = false;
  int times_taken = 0;  // from the free queue
};

/// The state that a picture shows. The states of two commands give the motion between them.
struct Shown {
  viz::NamedList<Asked> asked{"request", 4};
  std::vector<Held> blocks = {};  // [num_blocks + 1], by id
  Lookup lookup = {};
  int held = 0, full = 0;  // blocks; blocks if no layer forgot
  int peak = 0;            // blocks held at once
  std::string reason = {}, points_at = {};

  Held& block(int32_t id) { return blocks.at(id); }
};

class WindowsPage : public viz::PoolPage<Shown, PageSettings> {
 public:
  explicit WindowsPage(const viz::PageContext& context);

  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override { manager().check(); }
  viz::Scene scene(const viz::Room& room) override;
  std::vector<viz::Button> actions() const override;
  void draw(viz::Ui& ui) override;

 private:
  // page.cpp
  std::vector<viz::Verb> requests();
  std::string begin() override;
  std::string why_not_add(const std::string& name, size_t num_tokens) const;
  std::string too_long(int num_tokens) const;
  std::string add(const std::string& name, std::vector<int32_t> tokens);
  std::string append(const std::string& name, int num_tokens);
  std::string tell_fallen(const Asked& asked);
  std::vector<int32_t> begun(const std::string& other, int num_tokens, const std::string& words);

  std::string live(const std::string& prompt, int max_tokens);

  // Of the engine during a live run, else of the page.
  const KvCacheCoordinator& manager() const {
    return live_.running() ? *live_.engine<WindowsEngine>().manager() : *manager_;
  }

  // shown.cpp
  void follow_engine();
  Lookup look_up(Asked& asked, const ComputedBlocks& computed);
  Shown look() override;
  int num_skipped(const Asked& asked) const;
  std::string told_of(const Lookup& lookup) const;
  std::string group_name(int group) const;

  // scene.cpp
  void draw_pool(viz::Scene& scene, const viz::Place& at) const;
  std::string badge_of(const Held& held, const viz::Room& room, float width) const;
  void draw_lookup(viz::Scene& scene, const viz::Place& at) const;
  viz::Bar lookup_row(int group) const;
  void let_fall(viz::Scene& scene) const;

  friend class Lanes;  // lanes.cpp

  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<KvCacheCoordinator> manager_;       // borrows the pool
  std::map<std::string, std::vector<int32_t>> said_;  // by all requests that there were
  int64_t next_id_ = 0;
};

// Parts of a command's motion: fallen blocks go back, found blocks come, then new ones, and the
// window slides.
constexpr viz::Span kFalls{0.05f, 0.45f}, kFound{0, 0.4f}, kTaken{0.4f, 0.8f},
    kSlides{0.45f, 0.95f};
constexpr float kGroupName = 68, kResult = 84;  // widths, at both ends of a row

/// The state in which a block that is held in this group is drawn.
inline viz::State in_group(int group) {
  return group == 0 ? viz::State::kInUse : viz::State::kSliding;
}
/// Requests, their tokens, and a table for each group; and the height that they have if there is
/// room.
void draw_lanes(viz::Scene& scene, const WindowsPage& page, const viz::Place& at);
float lanes_height(int num_groups, size_t num_requests);

}  // namespace lesson10
