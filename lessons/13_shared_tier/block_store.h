#pragma once

// A store in which servers keep blocks for each other. The stores themselves are in cli/.

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "block_name.h"

namespace lesson13 {

/// Values by name. A store may lose any of them at any time. Each function is one trip, whatever
/// the number of names, once the store is known (a Redis cluster is asked first who holds what); a
/// store that does not answer makes it fail, and never throws.
class BlockStore {
 public:
  virtual ~BlockStore() = default;
  /// Number of these blocks, from the first one on, that the store has. Empty if the store
  /// does not answer.
  virtual std::optional<size_t> find(std::span<const BlockName> names) = 0;
  /// Hands over the values of those blocks, first to last, up to the first one that is missing or
  /// does not come. A value is valid during the call.
  using OnValue = std::function<void(size_t index, std::string_view value)>;
  virtual void get(std::span<const BlockName> names, const OnValue& on_value) = 0;
  /// Returns false if the store does not keep the value: it does not answer, or has no room.
  virtual bool put(const BlockName& name, std::string_view value) = 0;
};

}  // namespace lesson13
