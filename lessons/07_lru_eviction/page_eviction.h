#pragma once

// The page of lesson 07: the free queue from the least recently used block to the most, what is
// taken and what comes back. page.cpp: what its commands do; page_draw.cpp: what it shows.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "block_pool.h"
#include "viz/names.h"
#include "viz/page.h"

namespace lesson07 {

struct PageSettings {
  int num_blocks = 16;
  int block_size = 4;
  FreeOrder order = FreeOrder::kAppend;
};

/// A request in words: each word is a token.
struct Asked : viz::SequenceView {
  int64_t id = 0;  // the manager's
  int num_cached_tokens = 0;
  std::vector<int32_t> tokens;
};

class EvictionPage : public viz::Page {
 public:
  EvictionPage();

  void reset() override { restart({}); }
  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override { manager_->check(); }
  void draw(viz::Ui& ui) override;

 private:
  void declare_pools();
  std::string restart(const PageSettings& settings);
  std::string ask(const std::string& name, const std::string& text, const std::string& salt);
  std::string more(const std::string& name, const std::string& text);
  std::string free(const std::string& name);
  std::string what_happened(int64_t revived_before);
  std::string why_not_more(const std::string& name, int num_tokens) const;

  void draw_controls(viz::Ui& ui);
  void draw_queue(viz::Ui& ui);
  void draw_pool(viz::Ui& ui);
  void draw_requests(viz::Ui& ui);

  PageSettings settings_;
  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<KvCacheManager> manager_;  // borrows the pool
  viz::NamedList<Asked> asked_{"request", 8};
  viz::Vocabulary vocabulary_;
  std::vector<int32_t> evicted_;  // by the command that runs
  std::string last_evicted_;      // in words, with the reason
  int64_t next_id_ = 0;
  int64_t num_asked_ = 0, num_found_ = 0;  // tokens of all requests
};

}  // namespace lesson07
