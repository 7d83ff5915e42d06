#include "page_simulator.h"

#include <stdexcept>
#include <utility>

namespace lesson05 {
namespace {

using kv::count_of;

size_t at(int64_t index) { return static_cast<size_t>(index); }

/// "needs 5 blocks, 3 are free".
std::string too_few_blocks(int64_t needed, int num_free) {
  return fmt::format("needs {}, {} free", count_of(needed, "block"),
                     num_free == 1 ? "1 is" : fmt::format("{} are", num_free));
}

}  // namespace

std::string next_label(const Simulator::Sequence& sequence) {
  return fmt::format("{}{}", sequence.name, sequence.labels.size());
}

void copy_labels(std::vector<int32_t>& labels, const BlockCopy& copy, int block_size) {
  std::copy_n(labels.begin() + static_cast<std::ptrdiff_t>(copy.source) * block_size, block_size,
              labels.begin() + static_cast<std::ptrdiff_t>(copy.destination) * block_size);
}

Simulator::Simulator(int num_blocks, int block_size, CopyLabels copy)
    : copy_(std::move(copy)),
      labels_(at(num_blocks) * at(block_size), 0),
      texts_{""},
      manager_(num_blocks, block_size, [this](std::span<const BlockCopy> copies) {
        for (const BlockCopy& pair : copies) copy_(labels_, pair, manager_.block_size());
        copies_.assign(copies.begin(), copies.end());
      }) {}

std::string Simulator::add(const std::string& name) {
  all_.add(name, {{}, manager_.add_sequence(), {}, {}});
  copies_.clear();
  return fmt::format("new {}: an empty table, no block", name);
}

std::string Simulator::append(const std::vector<std::string>& names, int num_tokens,
                              std::span<const std::string> words) {
  std::vector<Growth> growths;
  for (const std::string& name : names) growths.push_back({all_.at(name).number, num_tokens});
  const int free_before = manager_.pool().num_free();
  copies_.clear();
  manager_.append(growths);
  for (const std::string& name : names) {
    Sequence& sequence = all_.at(name);
    for (size_t i = 0; i < at(num_tokens); ++i) {
      add_label(sequence, words.empty() ? next_label(sequence) : words[i]);
    }
  }
  const int fresh = free_before - manager_.pool().num_free() - static_cast<int>(copies_.size());
  return fmt::format("append {} to {}: {}{}", num_tokens, fmt::join(names, ", "),
                     fresh == 0 ? "no new block" : count_of(fresh, "new block"), describe_copies());
}

std::string Simulator::fork(const std::string& name, const std::vector<std::string>& children) {
  const Sequence parent = all_.at(name);
  const auto ids = manager_.table(parent.number).block_ids();
  std::string refs;  // "ref 1 -> 2" if it is the same for all blocks
  if (!ids.empty()) {
    const auto ref_cnt = [&](int32_t id) { return manager_.pool().ref_cnt(id); };
    const int before = ref_cnt(ids[0]), more = static_cast<int>(children.size());
    const bool equal = std::ranges::all_of(ids, [&](int32_t id) { return ref_cnt(id) == before; });
    refs = equal ? fmt::format(", ref {} -> {}", before, before + more)
                 : fmt::format(", each ref + {}", more);
  }
  copies_.clear();
  for (const std::string& child : children) {
    all_.add(child, {{}, manager_.fork(parent.number), parent.labels, name});
  }
  return fmt::format("fork {} from {}: {} shared{}", fmt::join(children, ", "), name,
                     count_of(std::ssize(ids), "block"), refs);
}

std::string Simulator::free(const std::string& name) {
  const int number = all_.at(name).number;
  const int num_held = manager_.table(number).num_blocks();
  const int free_before = manager_.pool().num_free();
  copies_.clear();
  manager_.free_sequence(number);
  all_.erase(name);
  const int num_freed = manager_.pool().num_free() - free_before;
  std::string story =
      fmt::format("free {}: {} back to the pool", name, count_of(num_freed, "block"));
  if (num_freed < num_held) story += fmt::format(", {} held by others", num_held - num_freed);
  return story;
}

std::string Simulator::why_not_append(const std::vector<std::string>& names, int num_tokens) const {
  std::vector<Growth> growths;
  for (const std::string& name : names) growths.push_back({all_.at(name).number, num_tokens});
  if (growths.empty()) return "there is no sequence";
  const int64_t needed = manager_.blocks_to_append(growths);
  const int num_free = manager_.pool().num_free();
  return needed <= num_free ? "" : too_few_blocks(needed, num_free);
}

const std::string& Simulator::text(int64_t slot) const { return texts_[at(labels_.at(at(slot)))]; }

void Simulator::check() const {
  manager_.check();
  if (all_.size() != manager_.tables().size()) {
    throw std::logic_error("the page and the manager have different sequences");
  }
  for (const Sequence& sequence : all_) {
    const BlockTable& table = manager_.table(sequence.number);
    if (table.num_tokens() != static_cast<int>(sequence.labels.size())) {
      throw std::logic_error(fmt::format("{} has {} tokens, its table {}", sequence.name,
                                         sequence.labels.size(), table.num_tokens()));
    }
    for (int token = 0; token < table.num_tokens(); ++token) {
      const int32_t found = labels_[at(table.slot(token))];
      const int32_t wanted = sequence.labels[at(token)];
      if (found != wanted) {
        throw std::logic_error(fmt::format("token {} of {} reads \"{}\", it wrote \"{}\"", token,
                                           sequence.name, texts_[at(found)], texts_[at(wanted)]));
      }
    }
  }
}

/// The sequence writes its next token.
void Simulator::add_label(Sequence& sequence, std::string text) {
  const auto token = static_cast<int>(sequence.labels.size());
  sequence.labels.push_back(static_cast<int32_t>(texts_.size()));
  texts_.push_back(std::move(text));
  labels_[at(manager_.table(sequence.number).slot(token))] = sequence.labels.back();
}

/// "; block 4 was shared: copied to 7, ref 4 -> 3" for each copy of the last operation.
std::string Simulator::describe_copies() const {
  std::string text;
  for (const BlockCopy& copy : copies_) {
    text += fmt::format("; block {} was shared: copied to {}", copy.source, copy.destination);
  }
  if (copies_.size() == 1) {
    const int left = manager_.pool().ref_cnt(copies_[0].source);
    text += fmt::format(", ref {} -> {}", left + 1, left);
  }
  return text;
}

}  // namespace lesson05
