#include "page_sequences.h"

#include <stdexcept>

#include "program/check_manager.h"

namespace lesson03 {
namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

std::string written(const std::string& name, int token) { return fmt::format("{}{}", name, token); }

}  // namespace

NamedSequences::NamedSequences(int num_blocks, int block_size)
    : manager_(num_blocks, block_size), slots_(at(num_blocks) * at(block_size)) {}

std::string NamedSequences::add(const std::string& name) {
  all_.add(name, {{}, manager_.add_sequence()});
  return fmt::format("new {}: an empty table, no block", name);
}

std::string NamedSequences::append(const std::string& name, int num_tokens) {
  const int number = all_.at(name).number;
  const int tokens = table(name).num_tokens(), blocks = table(name).num_blocks();
  if (!manager_.extend(number, num_tokens)) throw std::logic_error("why_not_append found room");
  for (int token = tokens; token < table(name).num_tokens(); ++token) {
    slots_[at(table(name).slot(token))] = written(name, token);
  }
  const auto fresh = table(name).block_ids().subspan(at(blocks));
  const std::string what = fmt::format("append {} to {}", num_tokens, name);
  if (fresh.empty()) return what + ": no new block";
  if (fresh.size() == 1) return fmt::format("{}: new block {}", what, fresh[0]);
  const size_t shown = std::min<size_t>(fresh.size(), 8);
  return fmt::format("{}: {} new blocks {}{}", what, fresh.size(),
                     fmt::join(fresh.first(shown), ", "), shown < fresh.size() ? " .." : "");
}

std::string NamedSequences::free(const std::string& name) {
  const int number = all_.at(name).number;
  const int blocks = manager_.table(number).num_blocks();
  manager_.free_sequence(number);
  all_.erase(name);
  return fmt::format("free {}: {} back to the pool", name, kv::count_of(blocks, "block"));
}

std::string NamedSequences::why_not_append(const std::string& name, int num_tokens) const {
  const int needed = table(name).blocks_to_extend(num_tokens);
  const int num_free = manager_.pool().num_free();
  if (needed <= num_free) return "";
  return fmt::format("needs {}, {} free", kv::count_of(needed, "block"), num_free);
}

const BlockTable& NamedSequences::table(const std::string& name) const {
  return manager_.table(all_.at(name).number);
}

const std::string& NamedSequences::text(const std::string& name, int token) const {
  return slots_[at(table(name).slot(token))];
}

void NamedSequences::check() const {
  lesson03::check(manager_);
  for (const Sequence& sequence : all_) {
    for (int token = 0; token < table(sequence.name).num_tokens(); ++token) {
      const std::string& found = text(sequence.name, token);
      if (found != written(sequence.name, token)) {
        throw std::logic_error(
            fmt::format("token {} of {} reads \"{}\"", token, sequence.name, found));
      }
    }
  }
}

}  // namespace lesson03
