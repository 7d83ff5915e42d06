#include "free_block_queue.h"

#include <fmt/format.h>

#include <stdexcept>

namespace lesson07 {

FreeBlockQueue::FreeBlockQueue() {
  front_.next_free = &back_;
  back_.prev_free = &front_;
}

KvBlock& FreeBlockQueue::popleft() {
  if (empty()) throw std::logic_error("FreeBlockQueue: there is no free block");
  KvBlock& block = *front_.next_free;
  remove(block);
  return block;
}

void FreeBlockQueue::remove(KvBlock& block) {
  if (!contains(block)) {
    throw std::logic_error(fmt::format("FreeBlockQueue: block {} is not free", block.id));
  }
  block.prev_free->next_free = block.next_free;
  block.next_free->prev_free = block.prev_free;
  block.prev_free = block.next_free = nullptr;
  --size_;
}

void FreeBlockQueue::append(KvBlock& block) { insert_before(back_, block); }

void FreeBlockQueue::prepend(KvBlock& block) { insert_before(*front_.next_free, block); }

void FreeBlockQueue::insert_before(KvBlock& next, KvBlock& block) {
  if (contains(block)) {
    throw std::logic_error(fmt::format("FreeBlockQueue: block {} is free already", block.id));
  }
  block.prev_free = next.prev_free;
  block.next_free = &next;
  block.prev_free->next_free = &block;
  next.prev_free = &block;
  ++size_;
}

std::vector<const KvBlock*> FreeBlockQueue::first(size_t n) const {
  std::vector<const KvBlock*> blocks;
  const KvBlock* block = front_.next_free;
  for (; block != &back_ && blocks.size() < n; block = block->next_free) blocks.push_back(block);
  return blocks;
}

}  // namespace lesson07
