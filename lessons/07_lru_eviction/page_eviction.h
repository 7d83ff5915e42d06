#pragma once

// The page of lesson 07: the free queue from the least recently used block to the most, what is
// taken and what comes back. page.cpp: what its commands do; page_draw.cpp: what it shows.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "block_manager.h"
#include "viz/page.h"

namespace lesson07 {

constexpr size_t kMaxNamed = 8;

struct PageSettings {
  int num_blocks = 16;
  int block_size = 4;
  FreeOrder order = FreeOrder::kAppend;
};

/// A request in words: each word is a token.
struct Named {
  int seq = 0;
  int hue = 0;
  int num_cached_tokens = 0;
  std::vector<int32_t> tokens;
};

class EvictionPage : public viz::Page {
 public:
  EvictionPage() { reset(); }

  viz::PageInfo info() const override;
  void reset() override { restart({}); }
  std::string apply(const viz::Command& command) override;
  std::optional<int64_t> counter(std::string_view name) const override;
  std::vector<std::string> counter_names() const override;
  void check_invariants() const override { manager_->check(); }
  void draw(viz::Ui& ui) override;

 private:
  void restart(const PageSettings& settings);
  std::string ask(const std::string& name, const std::string& text, const std::string& salt);
  std::string more(const std::string& name, const std::string& text);
  std::string free(const std::string& name);
  std::string settings(const viz::Command& command);
  std::vector<int32_t> tokens_of(const std::string& text);
  std::string words(std::span<const int32_t> tokens) const;
  Named& find(const std::string& name);
  std::string free_name() const;
  std::string what_happened(const CacheMetrics& before);

  void draw_controls(viz::Ui& ui);
  void draw_queue(viz::Ui& ui);
  void draw_pool(viz::Ui& ui);
  void draw_sequences(viz::Ui& ui);

  PageSettings settings_;
  std::unique_ptr<BlockManager> manager_;
  std::map<std::string, Named> named_;
  std::map<std::string, int32_t> ids_;
  std::vector<std::string> words_;
  std::string last_evicted_;  // in words, with the reason
  // What the fields hold.
  std::string text_ = "you are a kind guide tell me of paris";
  std::string salt_;
};

}  // namespace lesson07
