#pragma once

// Shared by the tests of files: a folder that goes away, the message of an error, small inputs.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>

#include "common/error.h"
#include "tests/support/temp_dir.h"

namespace kv::testing {

struct TempDir : kvtest::TempDir {
  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path() / name, std::ios::binary) << bytes;
    return path() / name;
  }
};

/// The message of the UserError that `action` throws; "no error" if it throws none. The message
/// must be one line for any input.
template <typename Action>
std::string user_error_of(const Action& action) {
  try {
    action();
  } catch (const UserError& error) {
    const std::string text = error.what();
    for (const char c : text) {
      if (static_cast<unsigned char>(c) < 0x20) return "more than one line: " + text;
    }
    return text.size() > 1000 ? "too long: " + text : text;
  }
  return "no error";
}

inline bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// `header` after its length in 8 bytes, and then `data`.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  std::string bytes;
  for (size_t i = 0; i < 8; ++i) {
    bytes.push_back(static_cast<char>((header.size() >> (8 * i)) & 0xFF));
  }
  return bytes.append(header).append(data);
}

}  // namespace kv::testing
