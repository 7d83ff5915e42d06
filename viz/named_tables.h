#pragma once

// Named sequences on a lesson's block manager, and what each of them wrote into its slots.

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/table.h"
#include "viz/names.h"

namespace viz {

/// A Manager has block tables by number: add_sequence(), table(number), free_sequence(number). A
/// lesson derives from this and adds what else can be done to its sequences.
template <class Manager>
class NamedTables {
 public:
  struct Sequence : SequenceView {
    int number = 0;                         // the manager's
    std::vector<std::string> written = {};  // [num_tokens]
    std::string parent = {};                // the sequence that it was forked from
  };

  NamedTables(const NamedTables&) = delete;
  NamedTables& operator=(const NamedTables&) = delete;

  const Manager& manager() const { return manager_; }
  const NamedList<Sequence>& all() const { return all_; }
  const auto& table(const std::string& name) const { return manager_.table(all_.at(name).number); }
  /// Content of a slot.
  const std::string& text(int64_t slot) const { return slots_.at(static_cast<size_t>(slot)); }

  // Each says in plain words what happened. Names are of all(), or may be added to it.
  std::string add(const std::string& name) {
    all_.add(name, {{}, manager_.add_sequence()});
    return fmt::format("{} comes with an empty table: it holds no block yet", name);
  }
  std::string free(const std::string& name) {
    const int number = all_.at(name).number, num_held = manager_.table(number).num_blocks();
    const int free_before = manager_.pool().num_free();
    manager_.free_sequence(number);
    all_.erase(name);
    const int num_freed = manager_.pool().num_free() - free_before;
    const std::string shared =
        num_freed < num_held ? fmt::format("; others hold {}", num_held - num_freed) : "";
    return fmt::format("{} ends and gives {} back to the pool{}", name,
                       kv::count_of(num_freed, "block"), shared);
  }

 protected:
  /// `more`: what the manager wants besides the size of its pool.
  template <class... More>
  NamedTables(size_t max_sequences, int num_blocks, int block_size, More&&... more)
      : slots_(static_cast<size_t>(num_blocks) * static_cast<size_t>(block_size)),
        manager_(num_blocks, block_size, std::forward<More>(more)...),
        all_("sequence", max_sequences) {}

  /// The sequence writes its next token.
  void write(Sequence& sequence, std::string text) {
    const int64_t slot =
        manager_.table(sequence.number).slot(static_cast<int>(sequence.written.size()));
    slots_[static_cast<size_t>(slot)] = text;
    sequence.written.push_back(std::move(text));
  }
  /// "needs 5 blocks, 3 are free"; empty: there is room.
  std::string too_few(int64_t needed) const {
    const int num_free = manager_.pool().num_free();
    if (needed <= num_free) return "";
    return fmt::format("needs {}, {} free", kv::count_of(needed, "block"),
                       num_free == 1 ? "1 is" : fmt::format("{} are", num_free));
  }
  /// Throws std::logic_error unless every token reads what its sequence wrote.
  void check_texts() const {
    for (const Sequence& sequence : all_) {
      const auto& table = manager_.table(sequence.number);
      if (table.num_tokens() != static_cast<int>(sequence.written.size())) {
        throw std::logic_error(fmt::format("{} has {} tokens, its table {}", sequence.name,
                                           sequence.written.size(), table.num_tokens()));
      }
      for (int token = 0; token < table.num_tokens(); ++token) {
        const std::string& found = text(table.slot(token));
        const std::string& wanted = sequence.written[static_cast<size_t>(token)];
        if (found == wanted) continue;
        throw std::logic_error(fmt::format("token {} of {} reads \"{}\", it wrote \"{}\"", token,
                                           sequence.name, found, wanted));
      }
    }
  }

  std::vector<std::string> slots_;  // [num_blocks * block_size]
  Manager manager_;
  NamedList<Sequence> all_;
};

}  // namespace viz
