#include "holders.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace lesson05 {

void Holders::add(int64_t seq, const lesson03::BlockTable& table) {
  if (table.num_blocks() != lesson03::blocks_for(table.num_tokens(), table.block_size())) {
    throw std::logic_error(fmt::format("sequence {} has {} blocks for {} tokens", seq,
                                       table.num_blocks(), table.num_tokens()));
  }
  for (const int32_t id : table.block_ids()) ++holders_.at(static_cast<size_t>(id));
}

void Holders::check(int32_t id, int ref_cnt) const {
  const int held = holders_.at(static_cast<size_t>(id));
  if (held == ref_cnt) return;
  throw std::logic_error(
      fmt::format("block {} has ref count {}, but {} tables hold it", id, ref_cnt, held));
}

int Holders::num_held() const {
  return static_cast<int>(std::ranges::count_if(holders_, [](int held) { return held > 0; }));
}

int64_t Holders::num_references() const {
  return std::accumulate(holders_.begin(), holders_.end(), int64_t{0});
}

}  // namespace lesson05
