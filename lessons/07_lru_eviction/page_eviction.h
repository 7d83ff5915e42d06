#pragma once

// The page of lesson 07: the free queue from the least recently used block to the most, what is
// taken and what comes back. page.cpp: what its commands do; page_draw.cpp: what it shows.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "block_manager.h"
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
  int seq = 0;
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
  std::string restart(const PageSettings& settings);
  std::string ask(const std::string& name, const std::string& text, const std::string& salt);
  std::string more(const std::string& name, const std::string& text);
  std::string free(const std::string& name);
  std::string what_happened(const CacheMetrics& before);
  std::string why_not_more(const std::string& name, int num_tokens) const;

  void draw_controls(viz::Ui& ui);
  void draw_queue(viz::Ui& ui);
  void draw_pool(viz::Ui& ui);
  void draw_requests(viz::Ui& ui);

  PageSettings settings_;
  std::unique_ptr<BlockManager> manager_;
  viz::NamedList<Asked> asked_{"request", 8};
  viz::Vocabulary vocabulary_;
  std::string last_evicted_;  // in words, with the reason
};

}  // namespace lesson07
