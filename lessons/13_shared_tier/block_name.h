#pragma once

// A name for a block that means the same on every machine, and the value that a store keeps under
// it. A value, in the byte order of x86 and ARM:
//
// clang-format off
//    0  8 bytes "KVSTORE1"
//    8  8       fingerprint of the model and the device
//   16 32       the block's own name
//   48  8       checksum of the content, made where it was computed
//   56  4 each  tokens, block_size of them
//   ..          K and V of all layers, as they lie in the host's memory
//   .. 32       HMAC-SHA256 of all of this, if the servers have a common secret
// clang-format on

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/sha256.h"
#include "lessons/06_prefix_hashing/block_hash.h"

namespace lesson13 {

using kv::Digest;
using lesson06::ExtraKeys;

/// The digest of all that K and V of a block depend on: model, device, and every token up to the
/// block's end. Lesson 06's numbers of prefixes mean something in one process; a name means the
/// same in all of them. No two contents with one name are known for SHA-256.
using BlockName = Digest;

/// Whether blocks with these keys may be shared: an adapter or an image is known by an id that
/// another server may give to something else. A salt keeps tenants apart.
bool can_be_shared(std::span<const lesson06::ExtraKey> extra_keys);
/// The name before the first block. `fingerprint` is kv::fingerprint_of().
BlockName root_name(uint64_t fingerprint, std::span<const lesson06::ExtraKey> extra_keys = {});
BlockName name_of(const BlockName& parent, std::span<const int32_t> tokens);
/// Adds the names of the blocks of `tokens` that are full and not among `names` yet.
void extend_names(std::vector<BlockName>& names, const BlockName& root,
                  std::span<const int32_t> tokens, int block_size);
/// "kv1:" and 64 hexadecimal digits.
std::string key_of(const BlockName& name);

/// Makes and checks values. Servers that share blocks have the same fields here.
struct ValueFormat {
  uint64_t fingerprint = 0;
  size_t bytes_per_block = 0;
  std::string secret = {};  // if there is one, only a server that knows it can make a value

  std::string encode(const BlockName& name, std::span<const int32_t> tokens, uint64_t checksum,
                     std::span<const std::byte> content) const;
  /// Copies the content of a value and returns its checksum. Empty if the value is not that of this
  /// block, or any byte of it has changed; then `content` may hold anything. Any bytes may be
  /// given.
  std::optional<uint64_t> decode(std::string_view value, const BlockName& name,
                                 std::span<const int32_t> tokens,
                                 std::span<std::byte> content) const;
};

}  // namespace lesson13
