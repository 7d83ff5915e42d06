#include "instruments/watch/sockets/server_events.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "common/json.h"

namespace watch {
namespace {

using nlohmann::json;

BlockHash hash_from(const std::string& hex) {
  BlockHash hash;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    hash += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return hash;
}

std::optional<BlockHash> parent_from(const json& hex) {
  return hex.is_null() ? std::nullopt : std::optional(hash_from(hex));
}

int small(const json& object, const char* key) {
  return static_cast<int>(kv::json_integer(object.at(key), key, 0, INT32_MAX));
}

std::vector<int32_t> tokens_from(const json& object) {
  std::vector<int32_t> tokens;
  for (const json& token : object.at("token_ids")) {
    tokens.push_back(static_cast<int32_t>(kv::json_integer(token, "token_ids", 0, INT32_MAX)));
  }
  return tokens;
}

Event event_from(const json& one) {
  if (one.at("type") == "AllBlocksCleared") return AllBlocksCleared{};
  const Place place{.medium = one.at("medium"), .group_idx = small(one, "group_idx")};
  std::vector<BlockHash> hashes;
  for (const json& hash : one.at("block_hashes")) hashes.push_back(hash_from(hash));
  if (one.at("type") == "BlockRemoved") return BlockRemoved{std::move(hashes), place};
  return BlockStored{.block_hashes = std::move(hashes),
                     .parent_block_hash = parent_from(one.at("parent_block_hash")),
                     .token_ids = tokens_from(one),
                     .block_size = small(one, "block_size"),
                     .place = place};
}

}  // namespace

void ServerEvents::take_event(const std::string& data) {
  if (!last_) return early_.push_back(data);
  const json batch = json::parse(data);
  const int64_t seq = kv::json_integer(batch.at("seq"), "seq", 0, INT64_MAX);
  if (seq <= *last_) return;  // part of the snapshot
  if (seq > *last_ + 1) throw std::runtime_error("events are missing");
  last_ = seq;
  std::vector<Event> events;
  for (const json& one : batch.at("events")) events.push_back(event_from(one));
  hand_on(std::move(events));
}

void ServerEvents::take_snapshot(const std::string& text) {
  const json snapshot = json::parse(text);
  last_ = kv::json_integer(snapshot.at("seq"), "seq", -1, INT64_MAX);
  std::vector<Event> events;  // its blocks, stored one after the other
  for (const json& block : snapshot.at("blocks")) {
    const BlockStored stored{.block_hashes = {hash_from(block.at("hash"))},
                             .parent_block_hash = parent_from(block.at("parent")),
                             .token_ids = tokens_from(block),
                             .block_size = small(snapshot, "block_size")};
    events.insert(events.end(), static_cast<size_t>(small(block, "copies")), stored);
  }
  hand_on(std::move(events));
  for (const std::string& data : std::exchange(early_, {})) take_event(data);
}

void ServerEvents::hand_on(std::vector<Event> events) {
  if (events.empty()) return;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  ready_.push_back({next_seq_++, encode({.ts = now.count(), .events = std::move(events)})});
}

std::vector<Frame> ServerEvents::frames() { return std::exchange(ready_, {}); }

}  // namespace watch
