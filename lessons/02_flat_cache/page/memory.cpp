#include "memory.h"

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
  return fmt::format("Slab {} grows by {}: {} of its {} are filled", slab,
                     kv::count_of(num_tokens, "token"), kv::with_commas(cache_.position(slab)),
                     kv::count_of(cache_.max_seq_len(), "slot"));
}

std::string SlabSimulator::why_not_append(int slab, int num_tokens) const {
  if (slab >= cache_.batch()) return fmt::format("there are slabs 0 to {}", cache_.batch() - 1);
  const int room = cache_.max_seq_len() - cache_.position(slab);
  if (num_tokens <= room) return "";
  return fmt::format("{} left of {}", kv::count_of(room, "slot"),
                     kv::with_commas(cache_.max_seq_len()));
}

/// Returns a sentence: where the request is now, or why it waits.
std::string Reservations::search(const std::string& name) {
  Reservation& one = all_.at(name);
  const std::vector<SlotRange> holes = arena_.holes();
  one.range = arena_.reserve(one.size);
  Search& search = searches_.emplace_back(Search{name, {}});
  for (const SlotRange& hole : holes) {
    if (one.range && hole.begin == one.range->begin) search.hole = hole;
    if (!search.hole) search.too_small.push_back(hole);
  }
  if (!one.range) {
    return fmt::format("{} waits: it needs {}, the largest hole has {}, {} are free in all", name,
                       kv::count_of(one.size, "slot"), kv::with_commas(arena_.largest_hole()),
                       kv::with_commas(arena_.total_free()));
  }
  return fmt::format("{} reserves {}, {} to {}", name, kv::count_of(one.size, "slot"),
                     kv::with_commas(one.range->begin),
                     kv::with_commas(one.range->begin + one.size - 1));
}

std::string Reservations::reserve(const std::string& name, int64_t size) {
  all_.add(name, {{}, size});
  searches_.clear();
  released_.clear();
  return search(name);
}

std::string Reservations::release(const std::string& name) {
  const Reservation gone = all_.at(name);
  all_.erase(name);
  searches_.clear();
  released_ = name;
  if (!gone.range) return fmt::format("{} waits no longer", name);
  arena_.release(*gone.range);
  std::string story = fmt::format(
      "{} gives {} back: {} free, {} in one piece", name, kv::count_of(gone.size, "slot"),
      kv::with_commas(arena_.total_free()), kv::with_commas(arena_.largest_hole()));
  while (const Reservation* next = first_waiting()) {
    story += "; " + search(next->name);
    if (!searches_.back().hole) break;
  }
  return story;
}

const Reservations::Reservation* Reservations::first_waiting() const {
  const auto found =
      std::ranges::find(all_, false, [](auto& one) { return one.range.has_value(); });
  return found == all_.end() ? nullptr : &*found;
}

}  // namespace lesson02
