#include "page_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/error.h"
#include "viz/names.h"

namespace lesson02 {
namespace {

FlatKvCache small_cache(int slabs, int slots) {
  if (slabs < 1 || slabs > SlabSimulator::kMaxSlabs || slots < 1 ||
      slots > SlabSimulator::kMaxSlots) {
    kv::user_error("{} slabs of {} slots: wanted 1 to {} slabs of 1 to {} slots", slabs, slots,
                   SlabSimulator::kMaxSlabs, SlabSimulator::kMaxSlots);
  }
  kv::ModelConfig config;
  config.num_layers = config.num_heads = config.num_kv_heads = config.head_dim = 1;
  return {config, kv::Device::kCpu, slabs, slots};
}

}  // namespace

SlabSimulator::SlabSimulator(int slabs, int slots) : cache_(small_cache(slabs, slots)) {}

void SlabSimulator::check_slab(int slab) const {
  if (slab < 0 || slab >= cache_.batch()) {
    kv::user_error("there is no slab {}; there are slabs 0 to {}", slab, cache_.batch() - 1);
  }
}

std::string SlabSimulator::append(int slab, int num_tokens) {
  check_slab(slab);
  if (const std::string why = why_not_append(slab, num_tokens); !why.empty()) {
    kv::user_error("append {} to slab {}: {}", num_tokens, slab, why);
  }
  cache_.advance(slab, num_tokens);
  return fmt::format("append {} to slab {}: {} of its {} slots hold a token", num_tokens, slab,
                     cache_.position(slab), cache_.max_seq_len());
}

std::string SlabSimulator::clear(int slab) {
  check_slab(slab);
  const int tokens = cache_.position(slab);
  cache_.clear(slab);
  return fmt::format("clear slab {}: {} tokens forgotten, {} slots stay reserved", slab, tokens,
                     cache_.max_seq_len());
}

int64_t SlabSimulator::slots_used() const {
  int64_t used = 0;
  for (int slab = 0; slab < cache_.batch(); ++slab) used += cache_.position(slab);
  return used;
}

std::string SlabSimulator::why_not_append(int slab, int num_tokens) const {
  const int room = cache_.max_seq_len() - cache_.position(slab);
  if (num_tokens <= room) return "";
  return fmt::format("{} of its {} slots are left", room, cache_.max_seq_len());
}

std::string Reservations::reserve(const std::string& name, int64_t size) {
  if (named_.contains(name)) kv::user_error("{} has a reservation already", name);
  if (name.empty() || name.size() > 8) {
    kv::user_error("name \"{}\": wanted 1 to 8 characters", name);
  }
  const auto range = arena_.reserve(size);
  if (!range) kv::user_error("{} wants {} slots: {}", name, size, why_not_reserve(size));
  const int hue = viz::free_hue(named_);
  named_[name] = {*range, hue};
  return fmt::format("{} reserves {} slots, {} to {}", name, size, range->begin,
                     range->begin + size - 1);
}

std::string Reservations::release(const std::string& name) {
  const auto found = named_.find(name);
  if (found == named_.end()) kv::user_error("{} has no reservation", name);
  const int64_t size = found->second.range.size;
  arena_.release(found->second.range);
  named_.erase(found);
  return fmt::format("{} gives {} slots back: {} are free, {} in one piece", name, size,
                     arena_.total_free(), arena_.largest_hole());
}

std::string Reservations::free_name() const {
  for (char c = 'A'; c <= 'Z'; ++c) {
    if (!named_.contains(std::string(1, c))) return std::string(1, c);
  }
  return {};
}

std::string Reservations::why_not_reserve(int64_t size) const {
  if (arena_.largest_hole() >= size) return "";
  return fmt::format("{} slots are free, but the largest hole has {}", arena_.total_free(),
                     arena_.largest_hole());
}

}  // namespace lesson02
