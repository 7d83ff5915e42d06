#pragma once

// The state of one block, and the queue of free blocks in the order in which they are taken.
// Source: vLLM's KVCacheBlock and FreeKVCacheBlockQueue (v0.22.1: vllm/v1/core/kv_cache_utils.py).

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lesson07 {

/// A block keeps its address as long as the pool lives. The queue links blocks through their own
/// pointers and needs no memory of its own.
struct KvBlock {
  // Only FreeBlockQueue touches these. Null while the block is not in the queue.
  KvBlock* prev_free = nullptr;
  KvBlock* next_free = nullptr;
  // Only BlockPool touches these.
  int32_t id = 0;
  int32_t ref_cnt = 0;   // tables that hold it; 0 means that it is free
  int32_t num_hits = 0;  // requests that found what it holds
  bool is_cached = false;
};

/// A doubly linked list through the blocks themselves, with a sentinel at each end. Front: taken
/// next (least recently used). Back: freed last. Every operation is O(1) and allocates nothing; a
/// deque would need a search to remove from the middle.
class FreeBlockQueue {
 public:
  FreeBlockQueue();
  FreeBlockQueue(const FreeBlockQueue&) = delete;
  FreeBlockQueue& operator=(const FreeBlockQueue&) = delete;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  static bool contains(const KvBlock& block) { return block.next_free != nullptr; }

  /// Takes the front block. Throws std::logic_error if there is none.
  KvBlock& popleft();
  /// Takes a block out, from any place. Throws std::logic_error, naming the block, if it is not in
  /// the queue. append() and prepend() throw it if the block is in the queue. A throw changes
  /// nothing.
  void remove(KvBlock& block);
  void append(KvBlock& block);   // to the back
  void prepend(KvBlock& block);  // to the front

  /// The first n blocks, or fewer if the queue is shorter.
  std::vector<const KvBlock*> first(size_t n) const;
  /// All blocks that the links reach, whatever size() says. For pictures and tests.
  std::vector<const KvBlock*> all() const { return first(SIZE_MAX); }

 private:
  void insert_before(KvBlock& next, KvBlock& block);

  KvBlock front_, back_;  // sentinels: never a block of the pool
  size_t size_ = 0;
};

}  // namespace lesson07
