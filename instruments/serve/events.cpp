#include "instruments/serve/events.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace serve {
namespace {

using Json = nlohmann::ordered_json;

Json hashes(const std::vector<watch::BlockHash>& blocks) {
  Json list = Json::array();
  for (const watch::BlockHash& hash : blocks) list.push_back(watch::hex(hash));
  return list;
}

Json json_of(const watch::BlockStored& event) {
  const auto& parent = event.parent_block_hash;
  return {{"type", "BlockStored"},
          {"block_hashes", hashes(event.block_hashes)},
          {"parent_block_hash", parent ? Json(watch::hex(*parent)) : Json()},
          {"token_ids", event.token_ids},
          {"block_size", event.block_size},
          {"medium", event.place.medium},
          {"group_idx", event.place.group_idx}};
}
Json json_of(const watch::BlockRemoved& event) {
  return {{"type", "BlockRemoved"},
          {"block_hashes", hashes(event.block_hashes)},
          {"medium", event.place.medium},
          {"group_idx", event.place.group_idx}};
}
Json json_of(const watch::AllBlocksCleared&) { return {{"type", "AllBlocksCleared"}}; }

std::string json_of(uint64_t seq, const watch::EventBatch& batch) {
  Json events = Json::array();
  for (const watch::Event& event : batch.events) {
    events.push_back(std::visit([](const auto& one) { return json_of(one); }, event));
  }
  return Json{{"seq", seq}, {"ts", batch.ts}, {"events", std::move(events)}}.dump();
}

}  // namespace

std::string CacheEvents::add(const watch::Frame& frame) {
  const watch::EventBatch batch = watch::decode(frame.payload);
  mirror_.apply(batch);
  last_ = frame.seq;
  kept_.push_back(
      {frame.seq, fmt::format("id: {}\ndata: {}\n\n", frame.seq, json_of(frame.seq, batch))});
  num_bytes_ += kept_.back().text.size();
  while (kept_.size() > 1 && (kept_.size() > max_kept_ || num_bytes_ > max_bytes_)) {
    num_bytes_ -= kept_.front().text.size();
    kept_.pop_front();
  }
  return kept_.back().text;
}

std::string CacheEvents::after(uint64_t last) const {
  std::string text;
  for (const Kept& one : kept_) {
    if (one.seq > last) text += one.text;
  }
  return text;
}

std::string CacheEvents::snapshot(int block_size, int num_blocks) const {
  std::vector<const watch::MirroredBlock*> blocks;
  for (const auto& [name, block] : mirror_.blocks()) blocks.push_back(&block);
  std::ranges::sort(blocks, {}, [](const auto* block) { return block->stored_at; });
  Json list = Json::array();
  for (const watch::MirroredBlock* block : blocks) {
    const watch::MirroredBlock* parent = block->parent ? mirror_.find(*block->parent) : nullptr;
    const std::string name = parent == nullptr ? "" : watch::hex(parent->hash);
    list.push_back({{"hash", watch::hex(block->hash)},
                    {"parent", block->parent ? Json(name) : Json()},
                    {"token_ids", block->tokens},
                    {"copies", block->num_copies}});
  }
  return Json{{"seq", last_ ? Json(*last_) : Json(-1)},
              {"block_size", block_size},
              {"num_blocks", num_blocks},
              {"blocks", std::move(list)}}
      .dump();
}

}  // namespace serve
