#pragma once

// Generation with a paged cache: a sequence takes a block when it needs one, and gives all of them
// back when it ends.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "block_manager.h"
#include "paged_loop.h"

namespace lesson03 {

/// The pool has options.num_blocks blocks, or as many as the requests of a generate() need; the
/// memory is kept for the next generate() of the same size. After a generate(), also one that
/// throws, every block is free.
class PagedEngine : public PagedLoop {
 public:
  using PagedLoop::PagedLoop;

  /// Of the running or the last generate(); null before the first. May be read inside a token
  /// callback.
  const BlockManager* manager() const { return manager_ ? &*manager_ : nullptr; }
  /// The manager's number of a request of the running generate(); -1 if it has none any more.
  int sequence_of(size_t request) const {
    return request < sequences_.size() ? sequences_[request] : -1;
  }

 protected:
  /// The blocks are gathered.
  std::unique_ptr<PagedAttentionBase> make_attention(const kv::ModelConfig& config,
                                                     PagedKvCache& cache) const override;

 private:
  void begin(std::span<const kv::Request> requests) override;
  int start(size_t i, std::span<const int32_t> tokens) override;
  const BlockTable& slots_for(size_t i, int num_tokens) override;
  void end(size_t i) override;
  InUse in_use() const override;

  std::optional<BlockManager> manager_;
  std::vector<int> sequences_;  // [requests] the manager's numbers, -1: none
};

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options);

}  // namespace lesson03
