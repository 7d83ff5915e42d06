#pragma once

// The events of a KV cache, as vLLM publishes them (v0.22.1: vllm/distributed/kv_events.py):
// batches in MessagePack, numbered one after the other. At v0.22.1 all is an array with its fields
// in order:
//
//   [ts, [["BlockStored", block_hashes, parent_block_hash, token_ids, block_size, lora_id, medium,
//          lora_name, extra_keys, group_idx, ..], ["BlockRemoved", block_hashes, medium,
//          group_idx],
//         ["AllBlocksCleared"]], data_parallel_rank]
//
// After v0.23 an event is a map, its name under "type" and its fields under their names. Both are
// read, fields of later versions are skipped, and missing fields have no value.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace watch {

/// The bytes of a hash. vLLM sends a number, which becomes 8 bytes with the most significant first,
/// or all bytes of a longer hash (VLLM_KV_EVENTS_USE_INT_BLOCK_HASHES=0).
using BlockHash = std::string;
BlockHash hash_of(uint64_t number);
std::string hex(const BlockHash& hash);

/// The place of a block. Equal content on another medium, or in another group, is another block.
struct Place {
  std::string medium = "GPU";
  int group_idx = 0;  // the group of layers, in a model whose layers differ
  friend bool operator==(const Place&, const Place&) = default;
};

/// Consecutive blocks of one prefix.
struct BlockStored {
  std::vector<BlockHash> block_hashes = {};
  std::optional<BlockHash> parent_block_hash = {};  // no value: the first block begins with token 0
  std::vector<int32_t> token_ids = {};  // of all blocks; none if the server does not say which
  int block_size = 0;
  Place place = {};
  std::string lora_name = {};                             // empty means none
  std::vector<std::vector<std::string>> extra_keys = {};  // of each block; empty means none
  friend bool operator==(const BlockStored&, const BlockStored&) = default;
};
struct BlockRemoved {
  std::vector<BlockHash> block_hashes = {};
  Place place = {};
  friend bool operator==(const BlockRemoved&, const BlockRemoved&) = default;
};
struct AllBlocksCleared {
  friend bool operator==(const AllBlocksCleared&, const AllBlocksCleared&) = default;
};
using Event = std::variant<BlockStored, BlockRemoved, AllBlocksCleared>;

struct EventBatch {
  double ts = 0;  // seconds since 1970
  std::vector<Event> events = {};
  int data_parallel_rank = 0;
  int num_unknown = 0;                     // events of other kinds
  std::vector<std::string> problems = {};  // what makes no sense, and is left out
};

/// As vLLM v0.22.1 writes it.
std::string encode(const EventBatch& batch);
/// Throws UserError for bytes that are no such batch. An event that makes no sense costs no other
/// event of its batch: it is one of the problems, "event 2, BlockStored: block_size: ..".
EventBatch decode(std::string_view payload);

/// An encoded batch and its number.
struct Frame {
  uint64_t seq = 0;
  std::string payload = {};
};
inline constexpr size_t kMaxPayload = size_t{16} << 20;  // bytes; a longer payload is refused
inline constexpr uint64_t kMaxSeq = INT64_MAX;           // of a frame; a larger number is refused

/// A frame's number as 8 bytes, the most significant first.
std::string seq_bytes(uint64_t seq);
uint64_t seq_of(std::string_view bytes);  // of 8 bytes

/// The target of frames: the watchers of an endpoint, or a recording.
class FrameSink {
 public:
  virtual ~FrameSink() = default;
  virtual void send(const Frame& frame) = 0;
};

}  // namespace watch
