#include "common/utf8.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace kv {
namespace {

constexpr size_t kMaxLength = 4;  // bytes of a character

/// The bytes of the character that starts here; 0 if none does.
size_t character(std::string_view text, utf8proc_int32_t* code_point) {
  const auto* const bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(std::min(text.size(), kMaxLength));
  return static_cast<size_t>(
      std::max<utf8proc_ssize_t>(utf8proc_iterate(bytes, size, code_point), 0));
}

/// Whether more bytes could make a character of these. A second byte may be limited to the upper or
/// to the lower half of all continuations, so one of each is tried.
bool can_be_finished(std::string_view part) {
  return std::ranges::any_of(std::array{'\x80', '\xBF'}, [&](char continuation) {
    std::string whole(kMaxLength, continuation);
    std::ranges::copy(part, whole.begin());
    utf8proc_int32_t code_point = 0;
    return character(whole, &code_point) > part.size();
  });
}

/// Controls, line breaks, and what has no width or turns the direction of the text round it: one of
/// these in a file's name could make a message say something else.
bool hides_or_moves_text(char32_t c) {
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

}  // namespace

Utf8Step utf8_step(std::string_view text, size_t pos) {
  text.remove_prefix(pos);
  if (const auto first = static_cast<unsigned char>(text[0]); first < 0x80) return {first, 1, true};
  utf8proc_int32_t code_point = 0;
  if (const size_t length = character(text, &code_point); length > 0) {
    return {static_cast<char32_t>(code_point), length, true};
  }
  size_t length = 1;
  while (length < std::min(text.size(), kMaxLength) && can_be_finished(text.substr(0, length + 1)))
    ++length;
  const bool unfinished = length == text.size() && can_be_finished(text);
  return {.length = length, .unfinished = unfinished};
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
  std::array<utf8proc_uint8_t, kMaxLength> bytes{};
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes.data());
  text.append(bytes.begin(), bytes.begin() + length);
}

std::string quote(std::string_view text, size_t max_bytes) {
  std::string out = "\"";
  for (size_t pos = 0; pos < text.size();) {
    if (pos >= max_bytes) return out + "...\"";
    const Utf8Step step = utf8_step(text, pos);
    out += printable(text.substr(pos, step.length));
    pos += step.length;
  }
  return out + "\"";
}

std::string one_line(std::string message, size_t max_bytes) {
  if (message.size() > max_bytes) {
    size_t end = max_bytes / 2;
    while (end > 0 && (message[end] & 0xC0) == 0x80) --end;  // not inside of a character
    size_t rest = message.size() - max_bytes / 2;
    while (rest < message.size() && (message[rest] & 0xC0) == 0x80) ++rest;
    while (end > 0 && message[end - 1] == ' ') --end;
    while (rest < message.size() && message[rest] == ' ') ++rest;
    message.replace(end, rest - end, " [...] ");
  }
  return printable(message);
}

std::string printable(std::string_view text) {
  std::string out;
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Step step = utf8_step(text, pos);
    if (step.valid && !hides_or_moves_text(step.code_point)) {
      out += text.substr(pos, step.length);
    } else {
      for (size_t i = 0; i < step.length; ++i) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[pos + i]));
      }
    }
    pos += step.length;
  }
  return out;
}

}  // namespace kv
