#pragma once

// UTF-8 for bytes from outside: prompts, files, a stream of tokens that is not complete yet.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kv {

/// The character, or the ill-formed part of one, that starts at one byte of a text.
struct Utf8Step {
  char32_t code_point = 0xFFFD;
  size_t length = 1;        // bytes to step over: a character, or a maximal ill-formed part of one
  bool valid = false;       // a whole character
  bool unfinished = false;  // ill-formed only because the text ends too early
};

/// Reads the character at `pos` < text.size(). An ill-formed sequence is cut where the Unicode
/// standard's "maximal subpart" rule (section 3.9) cuts it, as Python and Rust do.
Utf8Step utf8_step(std::string_view text, size_t pos);

/// True if every byte belongs to a whole character (no surrogates, no overlong forms).
bool is_valid_utf8(std::string_view text);

/// Each ill-formed part becomes one U+FFFD: Python's bytes.decode("utf-8", errors="replace").
std::string replace_invalid_utf8(std::string_view text);

/// Number of bytes at the end (0 to 3) that begin a character which more bytes could finish.
size_t unfinished_utf8_bytes(std::string_view text);

/// Appends the UTF-8 form of a code point (not a surrogate, at most U+10FFFF).
void append_utf8(std::string& text, char32_t code_point);

/// `text` as one line for a terminal: control characters, line breaks, characters that are
/// invisible or change the direction of writing, and ill-formed bytes become \xNN.
std::string printable(std::string_view text);

/// A message as one line of at most about `max_bytes` bytes: printable(), so that a line break in a
/// name is seen, and the middle of a longer one becomes [...]. Every error and warning of a
/// program, and every error of a server's answer, goes through it.
std::string one_line(std::string message, size_t max_bytes = 1000);

/// `text` in quotes for a one-line message: printable(), and at most about `max_bytes` bytes of it.
std::string quote(std::string_view text, size_t max_bytes = 60);

}  // namespace kv
