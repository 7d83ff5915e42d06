#include "qwen3/tokenizer_bpe.h"

#include <queue>

namespace kv {
namespace {

uint64_t key_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

constexpr uint32_t kNone = UINT32_MAX;

// The word as a linked list over an array: a merge keeps the left node and unlinks the right one.
struct Node {
  int32_t id;
  uint32_t previous;
  uint32_t next;
};

// A pair that may be merged. It is stale once one of its nodes has changed.
struct Candidate {
  uint32_t rank;
  uint32_t position;  // of the left node
  int32_t left;
  int32_t right;
  int32_t merged;
  // The lowest rank first, the leftmost among equals; std::priority_queue gives the largest first.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : position > other.position;
  }
};

}  // namespace

Bpe::Bpe(std::vector<int32_t> byte_ids, const std::vector<Merge>& merges)
    : byte_ids_(std::move(byte_ids)) {
  merges_.reserve(merges.size());
  uint32_t rank = 0;
  for (const Merge& m : merges) merges_.emplace(key_of(m.left, m.right), Result{rank++, m.merged});
}

const Bpe::Result* Bpe::find(int32_t left, int32_t right) const {
  const auto it = merges_.find(key_of(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

void Bpe::encode(std::string_view word, std::vector<int32_t>& ids) const {
  std::vector<Node> nodes;
  nodes.reserve(word.size());
  for (const char c : word) {
    const auto i = static_cast<uint32_t>(nodes.size());
    nodes.push_back({byte_ids_[static_cast<uint8_t>(c)], i == 0 ? kNone : i - 1,
                     i + 1 == word.size() ? kNone : i + 1});
  }
  std::priority_queue<Candidate> queue;
  const auto offer = [&](uint32_t position) {
    if (position == kNone || nodes[position].next == kNone) return;
    const int32_t left = nodes[position].id;
    const int32_t right = nodes[nodes[position].next].id;
    if (const Result* r = find(left, right)) {
      queue.push({r->rank, position, left, right, r->merged});
    }
  };
  for (uint32_t i = 0; i < nodes.size(); ++i) offer(i);

  constexpr int32_t kUnlinked = -1;  // ids are never negative
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Node& left = nodes[best.position];
    if (left.id != best.left || left.next == kNone || nodes[left.next].id != best.right) continue;
    Node& right = nodes[left.next];
    left.id = best.merged;
    left.next = right.next;
    right.id = kUnlinked;
    if (left.next != kNone) nodes[left.next].previous = best.position;
    offer(left.previous);
    offer(best.position);
  }
  for (uint32_t i = nodes.empty() ? kNone : 0; i != kNone; i = nodes[i].next) {
    ids.push_back(nodes[i].id);
  }
}

}  // namespace kv
