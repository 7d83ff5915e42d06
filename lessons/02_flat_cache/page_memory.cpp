#include "page_memory.h"

#include <fmt/format.h>

namespace lesson02 {
namespace {

FlatKvCache small_cache(int slabs, int slots) {
  kv::ModelConfig config;
  config.num_layers = config.num_heads = config.num_kv_heads = config.head_dim = 1;
  return {config, kv::Device::kCpu, slabs, slots};
}

}  // namespace

SlabSimulator::SlabSimulator(int slabs, int slots) : cache_(small_cache(slabs, slots)) {}

std::string SlabSimulator::append(int slab, int num_tokens) {
  cache_.advance(slab, num_tokens);
  return fmt::format("append {} to slab {}: {} of its {} filled", num_tokens, slab,
                     cache_.position(slab), kv::count_of(cache_.max_seq_len(), "slot"));
}

std::string SlabSimulator::clear(int slab) {
  const int tokens = cache_.position(slab);
  cache_.clear(slab);
  return fmt::format("clear slab {}: {} forgotten, {} reserved as before", slab,
                     kv::count_of(tokens, "token"), kv::count_of(cache_.max_seq_len(), "slot"));
}

std::string SlabSimulator::why_not_append(int slab, int num_tokens) const {
  if (slab >= cache_.batch()) return fmt::format("there are slabs 0 to {}", cache_.batch() - 1);
  const int room = cache_.max_seq_len() - cache_.position(slab);
  if (num_tokens <= room) return "";
  return fmt::format("{} left of {}", kv::count_of(room, "slot"), cache_.max_seq_len());
}

std::string SlabSimulator::why_not_clear(int slab) const {
  if (slab >= cache_.batch()) return fmt::format("there are slabs 0 to {}", cache_.batch() - 1);
  return cache_.position(slab) == 0 ? "it is empty" : "";
}

std::string Reservations::reserve(const std::string& name, int64_t size) {
  const SlotRange range = arena_.reserve(size).value();
  all_.add(name, {{}, range});
  return fmt::format("{} reserves {}, {} to {}", name, kv::count_of(size, "slot"), range.begin,
                     range.begin + size - 1);
}

std::string Reservations::release(const std::string& name) {
  const SlotRange range = all_.at(name).range;
  arena_.release(range);
  all_.erase(name);
  return fmt::format("{} gives {} back: {} free, {} in one piece", name,
                     kv::count_of(range.size, "slot"), arena_.total_free(), arena_.largest_hole());
}

std::string Reservations::why_not_reserve(const std::string& name, int64_t size) const {
  if (const std::string why = all_.why_not_add(name); !why.empty()) return why;
  if (arena_.largest_hole() >= size) return "";
  return fmt::format("{} free, but the largest hole has {}",
                     kv::count_of(arena_.total_free(), "slot"), arena_.largest_hole());
}

}  // namespace lesson02
