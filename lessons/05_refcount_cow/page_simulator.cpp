#include "page_simulator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "common/base/error.h"
#include "viz/names.h"

namespace lesson05 {
namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

int checked_blocks(int num_blocks) {
  if (num_blocks < 1 || num_blocks > Simulator::kMaxBlocks) {
    kv::user_error("{} blocks: wanted 1 to {}", num_blocks, Simulator::kMaxBlocks);
  }
  return num_blocks;
}

int checked_size(int block_size) {
  if (block_size < 1 || block_size > 256 || !std::has_single_bit(static_cast<unsigned>(block_size)))
    kv::user_error("block size {}: wanted a power of two from 1 to 256", block_size);
  return block_size;
}

}  // namespace

void copy_labels(std::vector<int32_t>& labels, const BlockCopy& copy, int block_size) {
  std::copy_n(labels.begin() + static_cast<std::ptrdiff_t>(copy.source) * block_size, block_size,
              labels.begin() + static_cast<std::ptrdiff_t>(copy.destination) * block_size);
}

std::string too_few_blocks(int64_t needed, int num_free) {
  return fmt::format("needs {}, {} free", count_of(needed, "block"),
                     num_free == 1 ? "1 is" : fmt::format("{} are", num_free));
}

std::string count_of(int64_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

std::string sequence_name(int index) {
  std::string name;
  for (int rest = index; rest >= 0; rest = rest / 26 - 1) {
    name.insert(name.begin(), static_cast<char>('A' + rest % 26));
  }
  return name;
}

Simulator::Simulator(int num_blocks, int block_size, CopyLabels copy)
    : copy_(std::move(copy)),
      labels_(at(checked_blocks(num_blocks)) * at(checked_size(block_size)), 0),
      texts_{""},
      manager_(num_blocks, block_size, [this](std::span<const BlockCopy> copies) {
        for (const BlockCopy& pair : copies) copy_(labels_, pair, manager_.block_size());
        copies_.assign(copies.begin(), copies.end());
      }) {}

/// Runs an operation and notes the blocks whose count it changed.
template <class Operation>
auto Simulator::tracked(Operation operation) {
  const BlockPool& pool = manager_.pool();
  std::vector<int> before;
  for (int32_t id = 0; id < pool.num_blocks(); ++id) before.push_back(pool.ref_cnt(id));
  copies_.clear();
  const auto result = operation();
  touched_.clear();
  for (int32_t id = 0; id < pool.num_blocks(); ++id) {
    if (pool.ref_cnt(id) != before[at(id)]) touched_.push_back(id);
  }
  return result;
}

std::string Simulator::add(const std::string& name) {
  check_new_names({&name, 1});
  insert(name, tracked([&] { return manager_.add_sequence(); }), {});
  return fmt::format("new {}: an empty table, no block", name);
}

std::string Simulator::append(std::span<const std::string> names, int num_tokens) {
  std::vector<Growth> growths;
  for (const std::string& name : names) growths.push_back({find(name).number, num_tokens});
  const std::string who = fmt::format("append {} to {}", num_tokens, fmt::join(names, ", "));
  if (const std::string why = why_not_append(names, num_tokens); !why.empty()) {
    kv::user_error("{}: {}; nothing has changed", who, why);
  }
  const int free_before = manager_.pool().num_free();
  tracked([&] { return manager_.append(growths); });
  for (const std::string& name : names) {
    Sequence& sequence = sequences_.at(name);
    const int begin = static_cast<int>(sequence.labels.size());
    for (int token = begin; token < begin + num_tokens; ++token) {
      set_label(name, sequence, token);
    }
  }
  const int fresh = free_before - manager_.pool().num_free() - static_cast<int>(copies_.size());
  return fmt::format("{}: {}{}", who,
                     fresh == 0 ? "no new block" : fmt::format("{}", count_of(fresh, "new block")),
                     describe_copies());
}

std::string Simulator::fork(const std::string& name, std::span<const std::string> children) {
  const Sequence& parent = find(name);
  check_new_names(children);
  const BlockTable& table = manager_.table(parent.number);
  const auto ids = table.block_ids();
  const auto num_children = static_cast<int>(children.size());
  std::string refs;  // "ref 1 -> 2" if it is the same for all blocks
  if (!ids.empty()) {
    const int before = manager_.pool().ref_cnt(ids.front());
    const bool equal = std::all_of(
        ids.begin(), ids.end(), [&](int32_t id) { return manager_.pool().ref_cnt(id) == before; });
    refs = equal ? fmt::format(", ref {} -> {}", before, before + num_children)
                 : fmt::format(", each ref + {}", num_children);
  }
  const int num_shared = table.num_blocks();
  const std::vector<int32_t> labels = parent.labels;
  const int number = parent.number;
  const std::vector<int> numbers = tracked([&] {
    std::vector<int> made;
    for (int i = 0; i < num_children; ++i) made.push_back(manager_.fork(number));
    return made;
  });
  for (size_t i = 0; i < children.size(); ++i) insert(children[i], numbers[i], labels);
  return fmt::format("fork {} from {}: {} shared{}", fmt::join(children, ", "), name,
                     count_of(num_shared, "block"), refs);
}

std::string Simulator::free(const std::string& name) {
  const int number = find(name).number;
  const int num_held = manager_.table(number).num_blocks();
  const int free_before = manager_.pool().num_free();
  tracked([&] {
    manager_.free_sequence(number);
    return 0;
  });
  sequences_.erase(name);
  const int num_freed = manager_.pool().num_free() - free_before;
  std::string story =
      fmt::format("free {}: {} back to the pool", name, count_of(num_freed, "block"));
  if (num_freed < num_held) story += fmt::format(", {} held by others", num_held - num_freed);
  return story;
}

std::string Simulator::why_no_more(int num_sequences) const {
  if (static_cast<int>(sequences_.size()) + num_sequences <= kMaxSequences) return "";
  return fmt::format("there are {} of at most {} sequences", sequences_.size(), kMaxSequences);
}

std::string Simulator::why_not_append(std::span<const std::string> names, int num_tokens) const {
  std::vector<Growth> growths;
  for (const std::string& name : names) growths.push_back({find(name).number, num_tokens});
  if (growths.empty()) return "there is no sequence";
  const int64_t needed = manager_.blocks_to_append(growths);
  const int num_free = manager_.pool().num_free();
  return needed <= num_free ? "" : too_few_blocks(needed, num_free);
}

std::vector<std::string> Simulator::names() const {
  std::vector<std::string> names;
  for (const auto& [name, sequence] : sequences_) names.push_back(name);
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return sequences_.at(a).number < sequences_.at(b).number;
  });
  return names;
}

std::vector<std::string> Simulator::free_names(int count) const {
  std::vector<std::string> names;
  for (int i = 0; static_cast<int>(names.size()) < count; ++i) {
    if (!sequences_.contains(sequence_name(i))) names.push_back(sequence_name(i));
  }
  return names;
}

const std::string& Simulator::text(int64_t slot) const { return texts_[at(labels_.at(at(slot)))]; }

void Simulator::check() const {
  manager_.check();
  if (sequences_.size() != manager_.tables().size()) {
    throw std::logic_error("the page and the manager have different sequences");
  }
  for (const auto& [name, sequence] : sequences_) {
    const BlockTable& table = manager_.table(sequence.number);
    if (table.num_tokens() != static_cast<int>(sequence.labels.size())) {
      throw std::logic_error(fmt::format("{} has {} tokens, its table {}", name,
                                         sequence.labels.size(), table.num_tokens()));
    }
    for (int token = 0; token < table.num_tokens(); ++token) {
      const int32_t found = labels_[at(table.slot(token))];
      const int32_t wanted = sequence.labels[at(token)];
      if (found != wanted) {
        throw std::logic_error(fmt::format("token {} of {} reads \"{}\", it wrote \"{}\"", token,
                                           name, texts_[at(found)], texts_[at(wanted)]));
      }
    }
  }
}

const Simulator::Sequence& Simulator::find(const std::string& name) const {
  const auto found = sequences_.find(name);
  if (found != sequences_.end()) return found->second;
  if (sequences_.empty()) kv::user_error("there is no sequence {}: begin with `new A`", name);
  kv::user_error("there is no sequence {}; there are {}", name, fmt::join(names(), ", "));
}

void Simulator::insert(const std::string& name, int number, std::vector<int32_t> labels) {
  const int hue = viz::free_hue(sequences_);
  sequences_[name] = {.number = number, .hue = hue, .labels = std::move(labels)};
}

void Simulator::set_label(const std::string& writer, Sequence& sequence, int token) {
  texts_.push_back(fmt::format("{}{}", writer, token));
  const auto label = static_cast<int32_t>(texts_.size() - 1);
  sequence.labels.push_back(label);
  const int64_t slot = manager_.table(sequence.number).slot(token);
  labels_[at(slot)] = label;
  const auto id = static_cast<int32_t>(slot / manager_.block_size());
  const auto place = std::lower_bound(touched_.begin(), touched_.end(), id);
  if (place == touched_.end() || *place != id) touched_.insert(place, id);
}

/// Names that a new sequence may have: letters and digits, each new.
void Simulator::check_new_names(std::span<const std::string> names) const {
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& name = names[i];
    const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
      return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    });
    if (name.empty() || name.size() > 8 || !plain || name == "all") {
      kv::user_error("sequence name \"{}\": wanted 1 to 8 letters and digits, and not all", name);
    }
    const auto earlier = names.first(i);
    if (sequences_.contains(name) ||
        std::find(earlier.begin(), earlier.end(), name) != earlier.end()) {
      kv::user_error("there is a sequence {} already: take another name", name);
    }
  }
  if (const std::string why = why_no_more(static_cast<int>(names.size())); !why.empty()) {
    kv::user_error("{}: free one first", why);
  }
}

/// "; block 4 is shared: copied to 7, ref 4 -> 3" for each copy of the last operation.
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
