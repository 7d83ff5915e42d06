#pragma once

// The page of lesson 07: the free queue from the least recently used block to the most, what is
// taken and what comes back. page.cpp: what its commands do; picture.cpp: what it shows.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine.h"
#include "picture.h"
#include "viz/pool_page.h"
#include "viz/word_requests.h"

namespace lesson07 {

struct PageSettings {
  int num_blocks = 8;
  int block_size = 4;
  FreeOrder order = FreeOrder::kAppend;
};

using Requests = viz::WordRequests<KvCacheManager, BlockHashes>;

class EvictionPage : public viz::PoolPage<Shown, PageSettings> {
 public:
  explicit EvictionPage(const viz::PageContext& context);

  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override { manager().check(); }
  viz::Scene scene(const viz::Room& room) override;
  std::vector<viz::Button> actions() const override;
  void draw(viz::Ui& ui) override;

 private:
  std::string begin() override;
  Shown look() override;
  void refused(const viz::Command& command, const std::string& why) override;
  void declare_pool();
  std::string ask(const std::string& name, const std::string& text, const std::string& salt);
  std::string free(const std::vector<std::string>& names);
  std::string what_happened(const std::string& name, int64_t revived_before);
  void start_live(const std::string& prompt, int max_tokens);
  std::string live_story();

  // Of the engine during a live run, else of the page's own pool.
  const KvCacheManager& manager() const {
    return live_.running() ? *live_.engine<CachingEngine>().manager() : *manager_;
  }
  const BlockPool& pool() const {
    return live_.running() ? *live_.engine<CachingEngine>().pool() : *pool_;
  }
  std::vector<Requests::Request> requests() const { return asked_.now<CachingEngine>(live_); }

  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<KvCacheManager> manager_;  // borrows the pool
  Requests asked_{8};
  std::vector<int32_t> evicted_;  // by the current command
  CacheMetrics told_;             // at the end of the last command
  std::string reason_;            // why the last command took, kept or left what it did
};

}  // namespace lesson07
