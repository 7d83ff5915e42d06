// Exercise of lesson 07: write what is missing here, then `./course exercise 7`.
// What each function promises stands in ../free_block_queue.h. The lesson's version is
// ../free_block_queue.cpp: try before you look.

#include "free_block_queue.h"

#include <fmt/format.h>

#include <stdexcept>

#include "common/todo.h"

namespace lesson07 {

FreeBlockQueue::FreeBlockQueue() {
  front_.next_free = &back_;
  back_.prev_free = &front_;
}

KvBlock& FreeBlockQueue::popleft() {
  // The one behind front_, taken out. An empty queue is std::logic_error.
  KV_TODO("FreeBlockQueue::popleft");
}

void FreeBlockQueue::remove(KvBlock& block) {
  // Its two neighbours are tied to each other, its own links are null again. No search, no
  // allocation. A block that is not in the queue is std::logic_error.
  KV_TODO("FreeBlockQueue::remove");
}

void FreeBlockQueue::append(KvBlock& block) { insert_before(back_, block); }

void FreeBlockQueue::prepend(KvBlock& block) { insert_before(*front_.next_free, block); }

void FreeBlockQueue::insert_before(KvBlock& next, KvBlock& block) {
  // Four links change. A block that is in the queue already is std::logic_error.
  KV_TODO("FreeBlockQueue::insert_before");
}

std::vector<const KvBlock*> FreeBlockQueue::all() const {
  std::vector<const KvBlock*> blocks;
  for (const KvBlock* block = front_.next_free; block != &back_; block = block->next_free) {
    blocks.push_back(block);
  }
  return blocks;
}

}  // namespace lesson07
