#pragma once

// What a scheduler asks of the manager of the K and V cache.

#include <cstdint>
#include <span>

#include "lessons/06_prefix_hashing/kv_cache_manager.h"

namespace lesson08 {

using lesson06::BlockHashes;
using lesson06::ComputedBlocks;

/// The manager of the K and V cache, as a scheduler needs it: lesson 06's functions.
class KvManager {
 public:
  virtual ~KvManager() = default;
  /// The cached blocks of a request's first tokens. Changes nothing.
  virtual ComputedBlocks get_computed_blocks(std::span<const int32_t> tokens,
                                             BlockHashes& hashes) const = 0;
  /// Free blocks that a request takes if it starts with `computed` and num_tokens tokens more.
  virtual int64_t num_blocks_to_allocate(const ComputedBlocks& computed, int num_tokens) const = 0;
  /// Slots for num_tokens tokens more; a request without blocks begins with `computed`. Returns
  /// false, with nothing changed, if the pool has too few free blocks.
  virtual bool allocate_slots(int64_t id, int num_tokens,
                              const ComputedBlocks& computed = lesson06::kNone) = 0;
  /// Caches the full blocks of the request's first num_computed tokens.
  virtual void cache_blocks(int64_t id, std::span<const int32_t> tokens, BlockHashes& hashes,
                            int num_computed) = 0;
  virtual void free(int64_t id) = 0;  // gives the request's blocks back
  virtual bool holds(int64_t id) const = 0;
  virtual const lesson03::BlockTable& table(int64_t id) const = 0;
  virtual int64_t max_blocks(int64_t num_tokens) const = 0;  // of a request of num_tokens tokens
  virtual int64_t num_slots_used() const = 0;
  virtual const lesson06::CachePool& pool() const = 0;
  virtual bool reset_prefix_cache() = 0;  // false, and nothing changed, if a block is held
  virtual void check() const = 0;         // throws std::logic_error if an invariant is broken
};

/// A KvManager over any class that has these functions. Borrows it.
template <class Manager>
class KvManagerOver final : public KvManager {
 public:
  explicit KvManagerOver(Manager& manager) : m_(manager) {}
  ComputedBlocks get_computed_blocks(std::span<const int32_t> tokens,
                                     BlockHashes& hashes) const override {
    return m_.get_computed_blocks(tokens, hashes);
  }
  int64_t num_blocks_to_allocate(const ComputedBlocks& computed, int num_tokens) const override {
    return m_.num_blocks_to_allocate(computed, num_tokens);
  }
  bool allocate_slots(int64_t id, int num_tokens, const ComputedBlocks& computed) override {
    return m_.allocate_slots(id, num_tokens, computed).has_value();
  }
  void cache_blocks(int64_t id, std::span<const int32_t> tokens, BlockHashes& hashes,
                    int num_computed) override {
    m_.cache_blocks(id, tokens, hashes, num_computed);
  }
  void free(int64_t id) override { m_.free(id); }
  bool holds(int64_t id) const override { return m_.holds(id); }
  const lesson03::BlockTable& table(int64_t id) const override { return m_.table(id); }
  int64_t max_blocks(int64_t num_tokens) const override { return m_.max_blocks(num_tokens); }
  int64_t num_slots_used() const override { return m_.num_slots_used(); }
  const lesson06::CachePool& pool() const override { return m_.pool(); }
  bool reset_prefix_cache() override { return m_.reset_prefix_cache(); }
  void check() const override { m_.check(); }

 private:
  Manager& m_;
};

}  // namespace lesson08
