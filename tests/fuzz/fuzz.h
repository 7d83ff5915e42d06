#pragma once

// The demands of the fuzzers beyond "no crash".

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/utf8.h"

namespace kv::fuzz {

inline void require(bool condition) {
  if (!condition) std::abort();
}

/// A message must be one printable line of bounded length for any input.
inline void check_message(std::string_view message) {
  require(!message.empty() && message.size() <= 1500 && is_valid_utf8(message));
  for (const char c : message) require(static_cast<unsigned char>(c) >= 0x20);
}

inline std::string_view text(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Keeps the compiler from dropping what led to `value`.
inline void use(unsigned value) {
  volatile unsigned sink = value;
  static_cast<void>(sink);
}

}  // namespace kv::fuzz
