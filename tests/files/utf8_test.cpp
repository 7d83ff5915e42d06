#include "common/utf8.h"

#include <doctest/doctest.h>

#include <vector>

using namespace kv;

TEST_CASE("utf8: ill-formed parts become U+FFFD where Python puts it") {
  // Right-hand sides from Python's bytes.decode("utf-8", "replace"); R stands for U+FFFD.
  const std::vector<std::pair<std::string, std::string>> cases{
      {"abc", "abc"},
      {"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", "\u00e9\u20ac\U0001F600"},
      {"\x80", "R"},
      {"\xFF\xFE", "RR"},
      {"\xC0\x80", "RR"},  // overlong
      {"\xC3", "R"},
      {"\xC3(", "R("},
      {"\xE2\x82", "R"},
      {"\xE2\x82(", "R("},
      {"\xE0\x80\x80", "RRR"},  // overlong
      {"\xED\xA0\x80", "RRR"},  // surrogate
      {"\xF0\x9F\x98", "R"},
      {"\xF0\x9F\x98\x41", "RA"},
      {"\xF0\x80\x80\x80", "RRRR"},  // overlong
      {"\xF4\x90\x80\x80", "RRRR"},  // above U+10FFFF
      {"\xF5\x80", "RR"},
      {"\xF1\x80\xE1\x80\xC2\x62", "RRRb"},  // the example of the Unicode standard, table 3-8
      {"\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64", "aRRRbRcRRd"},
  };
  for (const auto& one : cases) {
    const auto& [bytes, marked] = one;
    std::string wanted;
    for (const char c : marked) wanted += c == 'R' ? std::string("\uFFFD") : std::string(1, c);
    CAPTURE(one.second);
    CHECK(replace_invalid_utf8(bytes) == wanted);
    CHECK(is_valid_utf8(bytes) == (bytes == wanted));
    CHECK(is_valid_utf8(wanted));
  }
}

TEST_CASE("utf8: every code point survives writing and reading") {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, c);
    const Utf8Step step = utf8_step(text, 0);
    if (!step.valid || step.code_point != c || step.length != text.size()) FAIL("code point ", c);
    for (size_t n = 1; n < text.size(); ++n) {
      if (unfinished_utf8_bytes(text.substr(0, n)) != n) FAIL("prefix of code point ", c);
    }
    if (unfinished_utf8_bytes(text) != 0) FAIL("whole code point ", c);
  }
}

TEST_CASE("utf8: only what more bytes could finish is unfinished") {
  CHECK(unfinished_utf8_bytes("") == 0);
  CHECK(unfinished_utf8_bytes("a") == 0);
  CHECK(unfinished_utf8_bytes("a\xF0\x9F") == 2);
  CHECK(unfinished_utf8_bytes("\x9F\x98\x80") == 0);  // continuations without a lead
  CHECK(unfinished_utf8_bytes("\xF0\x9F\x98\x80\xE2") == 1);
  CHECK(unfinished_utf8_bytes("\xED\xA0") == 0);  // would be a surrogate
  CHECK(unfinished_utf8_bytes("\xE2\x82\x80\x80") == 0);
}

TEST_CASE("utf8: a quoted text is one printable line") {
  CHECK(quote("a\nb\x1b\xFF") == "\"a\\x0ab\\x1b\\xff\"");
  CHECK(quote("\u00e9\u2028") == "\"\u00e9\\xe2\\x80\\xa8\"");
  CHECK(quote(std::string(100, 'x'), 10) == "\"xxxxxxxxxx...\"");
}

TEST_CASE("utf8: a message is one printable line, without its middle if it is long") {
  CHECK(one_line("a\nb\x1b") == "a\\x0ab\\x1b");
  CHECK(one_line("0123456789", 10) == "0123456789");
  CHECK(one_line("0123456789a", 4) == "01 [...] 9a");
  CHECK(one_line("ab cd ef gh", 6) == "ab [...] gh");
  CHECK(one_line("0\u00e9\u00e9\u00e90", 4) == "0 [...] 0");
}

TEST_CASE("utf8: characters that hide or turn text are written as bytes") {
  CHECK(quote("a\u202egnp.exe") == "\"a\\xe2\\x80\\xaegnp.exe\"");
  for (const std::string hidden : {"\u0085", "\u061c", "\u200b", "\u2066", "\u2069", "\ufeff"}) {
    CAPTURE(hidden);
    CHECK(printable(hidden).starts_with("\\x"));
  }
  CHECK(printable("gr\u00fc\u00df \u4f60\u597d \U0001F600") ==
        "gr\u00fc\u00df \u4f60\u597d \U0001F600");
}
