#pragma once

// The page of lesson 07: the free queue from the least recently used block to the most, what is
// taken and what comes back. page.cpp: what its commands do; page_scene.cpp: what it shows.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine.h"
#include "page_watch.h"
#include "viz/live.h"
#include "viz/names.h"
#include "viz/page.h"
#include "viz/parts.h"

namespace lesson07 {

struct PageSettings {
  int num_blocks = 8;
  int block_size = 4;
  FreeOrder order = FreeOrder::kAppend;
};

/// A request in words: each word is a token.
struct Asked : viz::SequenceView {
  int64_t id = 0;  // the manager's
  int num_cached_tokens = 0;
  std::vector<int32_t> tokens;
  BlockHashes hashes = {};
};

class EvictionPage : public viz::Page {
 public:
  explicit EvictionPage(const viz::PageContext& context);

  void reset() override;
  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override { manager().check(); }
  viz::Scene scene(const viz::Room& room) override;
  void draw(viz::Ui& ui) override;

 protected:
  void changed() override;
  void refused(const viz::Command& command, const std::string& why) override;

 private:
  void declare_pools();
  void declare_live();
  void declare_watch();
  std::vector<viz::Verb> unwatched(std::vector<viz::Verb> verbs) const;
  std::vector<viz::Verb> pools_only(std::vector<viz::Verb> verbs) const;
  std::string restart(const PageSettings& settings);
  std::string ask(const std::string& name, const std::string& text, const std::string& salt);
  std::string more(const std::string& name, const std::string& text);
  std::string free(const std::vector<std::string>& names);
  std::string what_happened(const std::string& name, int64_t revived_before);
  std::string why_not_more(const std::string& name, int num_tokens) const;
  void start_live(const std::string& prompt, int max_tokens);
  std::string live_story();
  std::string watch(const std::string& what, const std::string& replay_endpoint);
  void draw_request(viz::Ui& ui);

  // Of the simulator, or of the engine while it runs.
  const KvCacheManager& manager() const;
  const BlockPool& pool() const { return static_cast<const BlockPool&>(manager().pool()); }
  std::vector<Asked> requests() const;
  Shown shown();

  PageSettings settings_;
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<KvCacheManager> manager_;  // borrows the pool
  viz::NamedList<Asked> asked_{"request", 8};
  viz::Vocabulary vocabulary_;
  int64_t next_id_ = 0;
  viz::Live live_;
  std::optional<WatchedCache> watched_;  // of a server, in place of the pool
  std::map<std::string, std::shared_ptr<watch::Feed>>
      feeds_;  // of servers: no state, reset() keeps them
  std::filesystem::path model_dir_;
  std::vector<int32_t> evicted_;  // by the command that runs
  CacheMetrics told_;             // what the story of the live run has told
  std::string reason_;            // why the last command took, kept or left what it did
  Shown before_, now_;            // the last command
};

}  // namespace lesson07
