#include "page_sequences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "common/base/error.h"
#include "viz/names.h"

namespace lesson03 {
namespace {

size_t at(int64_t index) { return static_cast<size_t>(index); }

int checked_blocks(int num_blocks, int block_size) {
  if (num_blocks < 1 || num_blocks > NamedSequences::kMaxBlocks) {
    kv::user_error("{} blocks: wanted 1 to {}", num_blocks, NamedSequences::kMaxBlocks);
  }
  if (block_size < 1 || block_size > 256 ||
      !std::has_single_bit(static_cast<unsigned>(block_size))) {
    kv::user_error("block size {}: wanted a power of two from 1 to 256", block_size);
  }
  return num_blocks;
}

std::string written(const std::string& name, int token) { return fmt::format("{}{}", name, token); }

}  // namespace

NamedSequences::NamedSequences(int num_blocks, int block_size)
    : manager_(checked_blocks(num_blocks, block_size), block_size),
      slots_(at(num_blocks) * at(block_size)) {}

std::string NamedSequences::add(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  });
  if (name.empty() || name.size() > 8 || !plain) {
    kv::user_error("sequence name \"{}\": wanted 1 to 8 letters and digits", name);
  }
  if (sequences_.contains(name)) kv::user_error("there is a sequence {} already", name);
  if (const std::string why = why_not_add(); !why.empty()) kv::user_error("new {}: {}", name, why);
  const int hue = viz::free_hue(sequences_);
  sequences_[name] = {.number = manager_.add_sequence(), .hue = hue};
  return fmt::format("new {}: an empty table, no block", name);
}

std::string NamedSequences::append(const std::string& name, int num_tokens) {
  const int number = find(name).number;
  if (const std::string why = why_not_append(name, num_tokens); !why.empty()) {
    kv::user_error("append {} to {}: {}; nothing has changed", num_tokens, name, why);
  }
  const int tokens = table(name).num_tokens(), blocks = table(name).num_blocks();
  const Growth growth{.seq = number, .num_tokens = num_tokens};
  if (!manager_.extend({&growth, 1})) throw std::logic_error("why_not_append found room");
  const BlockTable& table = manager_.table(number);
  for (int token = tokens; token < table.num_tokens(); ++token) {
    slots_[at(table.slot(token))] = written(name, token);
  }
  const auto fresh = table.block_ids().subspan(at(blocks));
  const std::string what = fmt::format("append {} to {}", num_tokens, name);
  if (fresh.empty()) return what + ": no new block";
  if (fresh.size() == 1) return fmt::format("{}: new block {}", what, fresh[0]);
  const size_t shown = std::min<size_t>(fresh.size(), 8);
  return fmt::format("{}: {} new blocks {}{}", what, fresh.size(),
                     fmt::join(fresh.first(shown), ", "), shown < fresh.size() ? " .." : "");
}

std::string NamedSequences::free(const std::string& name) {
  const int number = find(name).number;
  const int blocks = manager_.table(number).num_blocks();
  manager_.free_sequence(number);
  sequences_.erase(name);
  return fmt::format("free {}: {} {} back to the pool", name, blocks,
                     blocks == 1 ? "block" : "blocks");
}

std::string NamedSequences::why_not_add() const {
  if (static_cast<int>(sequences_.size()) < kMaxSequences) return "";
  return fmt::format("there are {} sequences, the most the page shows; free one", kMaxSequences);
}

std::string NamedSequences::why_not_append(const std::string& name, int num_tokens) const {
  const int needed = table(name).blocks_to_extend(num_tokens);
  const int num_free = manager_.pool().num_free();
  if (needed <= num_free) return "";
  return fmt::format("needs {} {}, {} free", needed, needed == 1 ? "block" : "blocks", num_free);
}

const BlockTable& NamedSequences::table(const std::string& name) const {
  return manager_.table(find(name).number);
}

std::vector<std::string> NamedSequences::names() const {
  std::vector<std::string> names;
  for (const auto& [name, sequence] : sequences_) names.push_back(name);
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return sequences_.at(a).number < sequences_.at(b).number;
  });
  return names;
}

const NamedSequences::Sequence& NamedSequences::find(const std::string& name) const {
  const auto found = sequences_.find(name);
  if (found != sequences_.end()) return found->second;
  if (sequences_.empty()) kv::user_error("there is no sequence {}: begin with `new A`", name);
  kv::user_error("there is no sequence {}; there are {}", name, fmt::join(names(), ", "));
}

std::string NamedSequences::free_name() const { return viz::free_name(sequences_); }

const std::string& NamedSequences::text(const std::string& name, int token) const {
  return slots_[at(table(name).slot(token))];
}

void NamedSequences::check() const {
  manager_.check();
  for (const auto& [name, sequence] : sequences_) {
    for (int token = 0; token < table(name).num_tokens(); ++token) {
      if (text(name, token) != written(name, token)) {
        throw std::logic_error(
            fmt::format("token {} of {} reads \"{}\"", token, name, text(name, token)));
      }
    }
  }
}

}  // namespace lesson03
