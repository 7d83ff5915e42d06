#include "common/base/utf8.h"

#include <fmt/format.h>

#include <algorithm>

namespace kv {
namespace {

struct Lead {
  int continuations = 0;  // 0: not a lead byte
  uint8_t low = 0x80;     // range of the second byte; later ones are always 80..BF
  uint8_t high = 0xBF;
};

// Table 3-7 of the Unicode standard, "Well-Formed UTF-8 Byte Sequences".
Lead lead_of(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};  // else overlong
  if (byte == 0xED) return {2, 0x80, 0x9F};  // else a surrogate
  if (byte >= 0xE1 && byte <= 0xEF) return {2};
  if (byte == 0xF0) return {3, 0x90, 0xBF};  // else overlong
  if (byte >= 0xF1 && byte <= 0xF3) return {3};
  if (byte == 0xF4) return {3, 0x80, 0x8F};  // else above U+10FFFF
  return {};
}

uint8_t byte_at(std::string_view text, size_t pos) { return static_cast<uint8_t>(text[pos]); }

/// Controls, line breaks, and what has no width or turns the direction of the text round it: one of
/// these in a file's name could make a message say something else.
bool hides_or_moves_text(char32_t c) {
  struct Range {
    char32_t first, last;
  };
  constexpr Range kRanges[] = {{0x00, 0x1F},     {0x7F, 0x9F},      {0xAD, 0xAD},
                               {0x61C, 0x61C},   {0x180E, 0x180E},  {0x200B, 0x200F},
                               {0x2028, 0x202E}, {0x2060, 0x206F},  {0xFEFF, 0xFEFF},
                               {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};
  return std::ranges::any_of(kRanges, [c](Range r) { return c >= r.first && c <= r.last; });
}

}  // namespace

Utf8Step utf8_step(std::string_view text, size_t pos) {
  const uint8_t first = byte_at(text, pos);
  if (first < 0x80) return {first, 1, true, false};
  const Lead lead = lead_of(first);
  if (lead.continuations == 0) return {};
  char32_t code_point = first & (0x3Fu >> lead.continuations);
  for (size_t i = 1; i <= static_cast<size_t>(lead.continuations); ++i) {
    if (pos + i == text.size()) return {0xFFFD, i, false, true};
    const uint8_t byte = byte_at(text, pos + i);
    const bool fits = i == 1 ? byte >= lead.low && byte <= lead.high : (byte & 0xC0u) == 0x80u;
    if (!fits) return {0xFFFD, i, false, false};
    code_point = (code_point << 6) | (byte & 0x3Fu);
  }
  return {code_point, static_cast<size_t>(lead.continuations) + 1, true, false};
}

bool is_valid_utf8(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Step step = utf8_step(text, pos);
    if (!step.valid) return false;
    pos += step.length;
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Step step = utf8_step(text, pos);
    out += step.valid ? text.substr(pos, step.length) : std::string_view("\xEF\xBF\xBD");
    pos += step.length;
  }
  return out;
}

size_t unfinished_utf8_bytes(std::string_view text) {
  // Only the last three bytes can hold the start of such a sequence; the longest one wins.
  for (size_t n = std::min<size_t>(3, text.size()); n > 0; --n) {
    const Utf8Step step = utf8_step(text, text.size() - n);
    if (step.unfinished && step.length == n) return n;
  }
  return 0;
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto put = [&](uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto tail = [&](int shift) { put(0x80u | ((code_point >> shift) & 0x3Fu)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0u | (code_point >> 6));
    tail(0);
  } else if (code_point < 0x10000) {
    put(0xE0u | (code_point >> 12));
    tail(6);
    tail(0);
  } else {
    put(0xF0u | (code_point >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

std::string quote(std::string_view text, size_t max_bytes) {
  std::string out = "\"";
  for (size_t pos = 0; pos < text.size();) {
    if (pos >= max_bytes) return out + "...\"";
    const Utf8Step step = utf8_step(text, pos);
    const size_t end = pos + step.length;
    out += printable(text.substr(pos, step.length));
    pos = end;
  }
  return out + "\"";
}

std::string printable(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Step step = utf8_step(text, pos);
    if (step.valid && !hides_or_moves_text(step.code_point)) {
      out += text.substr(pos, step.length);
    } else {
      for (size_t i = 0; i < step.length; ++i) {
        out += fmt::format("\\x{:02x}", byte_at(text, pos + i));
      }
    }
    pos += step.length;
  }
  return out;
}

}  // namespace kv
