#pragma once

// What is known about one block, and the free blocks in the order in which they will be taken.
// Source: vLLM's KVCacheBlock and FreeKVCacheBlockQueue (v0.22.1: vllm/v1/core/kv_cache_utils.py).

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lesson07 {

/// Lives in the pool's array for as long as the pool does, at one address: the queue links blocks
/// through their own pointers, and so needs no memory of its own.
struct KvBlock {
  // Only FreeBlockQueue touches these. Null: the block is not in the queue.
  KvBlock* prev_free = nullptr;
  KvBlock* next_free = nullptr;
  // Only BlockPool touches these.
  int32_t id = 0;
  int32_t ref_cnt = 0;   // tables that hold it; 0: it is in the free queue
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
  /// Takes a block out, wherever it is. These three throw std::logic_error, naming the block, for
  /// one that is not in the queue, or is in it already; nothing has changed then.
  void remove(KvBlock& block);
  void append(KvBlock& block);   // to the back
  void prepend(KvBlock& block);  // to the front

  /// Up to n blocks, from the front on.
  std::vector<const KvBlock*> first(size_t n) const;
  /// However many size() says there are. For pictures and tests.
  std::vector<const KvBlock*> all() const { return first(SIZE_MAX); }

 private:
  void insert_before(KvBlock& next, KvBlock& block);

  KvBlock front_, back_;  // sentinels: never a block of the pool
  size_t size_ = 0;
};

}  // namespace lesson07
