#include "instruments/serve/http/framing.h"

#include <algorithm>
#include <cctype>

namespace serve {
namespace {

bool is_token(std::string_view name) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::ranges::all_of(name, [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || kOthers.find(c) != kOthers.npos;
  });
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  constexpr const char* kSpaces = " \t";
  const size_t begin = std::min(text.find_first_not_of(kSpaces), text.size());
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

bool same_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

bool is_media_type(std::string_view header, std::string_view type) {
  return same_ignoring_case(trimmed(header.substr(0, header.find(';'))), type);
}

std::string bearer_of(std::string_view authorization) {
  const std::string_view all = trimmed(authorization);
  const size_t space = std::min(all.find_first_of(" \t"), all.size());
  if (!same_ignoring_case(all.substr(0, space), "Bearer")) return {};
  return std::string(trimmed(all.substr(space)));
}

std::string framing_error(const Headers& headers) {
  int num_lengths = 0, num_encodings = 0;
  for (const auto& [name, value] : headers) {
    if (!is_token(name)) return "a header's name has a character that none may have";
    if (same_ignoring_case(name, "Content-Length")) {
      ++num_lengths;
      const bool digits = std::ranges::all_of(
          value, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
      if (value.empty() || !digits) return "Content-Length: wanted digits alone";
    }
    if (same_ignoring_case(name, "Transfer-Encoding")) {
      ++num_encodings;
      if (!same_ignoring_case(value, "chunked")) return "Transfer-Encoding: wanted chunked alone";
    }
  }
  if (num_lengths + num_encodings > 1) {
    return "wanted one Content-Length, or one Transfer-Encoding, and not both";
  }
  return {};
}

}  // namespace serve
