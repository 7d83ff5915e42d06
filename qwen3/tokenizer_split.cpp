#include "qwen3/tokenizer_split.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <span>

#include "common/error.h"
#include "common/utf8.h"

namespace kv {
namespace {

using MatchData = std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)>;
using MatchContext = std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)>;

constexpr size_t kMaxPatternBytes = 16 << 10;

std::string message_of(int code) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(code, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// A pattern of Oniguruma's in PCRE2's words: there \s lacks U+180E, \w has marks, \h is a
// hexadecimal digit. Throws UserError for what else the two read differently.
std::string respelled(std::string_view pattern, const std::string& where) {
  static const std::map<char, std::string> kClasses = {
      {'s', R"(\t-\r\x{85}\p{Z})"},
      {'h', "0-9A-Fa-f"},
      {'w', R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-)"
            R"(\x{1F169}\x{1F170}-\x{1F189})"}};
  constexpr std::array kInClass{"[", "&&", "\\W", "\\H", "\\v"};
  constexpr std::array kOutside{"{,", "}+", "(?m", "(?im", "(?-", "\\b", "\\B", "\\v"};
  std::string out;
  bool in_class = false;
  for (size_t i = 0, size = 0; i < pattern.size(); i += size) {
    const std::string_view rest = pattern.substr(i);
    const auto refuse = [&](std::string_view part) {
      if (!rest.starts_with(part)) return;
      user_error("{}: {} has {}, which PCRE2 reads differently; wanted a pattern without it", where,
                 quote(pattern), quote(part));
    };
    for (auto part : in_class ? std::span<const char* const>(kInClass) : kOutside) refuse(part);
    if (i > 0 && !in_class) refuse("(?i)");
    const char escaped = rest[0] == '\\' && rest.size() > 1 ? rest[1] : '\0';
    size = escaped == '\0' ? 1 : 2;
    if (std::string_view("pPxkg").find(escaped) != rest.npos && rest.substr(2).starts_with('{')) {
      size = std::min(rest.find('}'), rest.size() - 1) + 1;  // \p{L}
    }
    const bool negated = escaped < 'a';
    const auto found = kClasses.find(static_cast<char>(escaped | 0x20));
    if (found == kClasses.end() || (in_class && negated)) {
      out += rest.substr(0, size);
    } else {
      out += in_class ? found->second : fmt::format("[{}{}]", negated ? "^" : "", found->second);
    }
    if (escaped == '\0') in_class = rest[0] == '[' || (in_class && rest[0] != ']');
  }
  return out;
}

}  // namespace

// utf8proc's own function reorders combining marks with a sort that takes n^2 steps for a long run
// of them; here the run is sorted by the standard library, and utf8proc decomposes and composes.
std::string to_nfc(std::string_view text) {
  // Below U+0300 (lead byte 0xCC) nothing composes with anything.
  const auto may_change = [](char c) { return static_cast<uint8_t>(c) >= 0xCC; };
  if (std::ranges::none_of(text, may_change)) return std::string(text);

  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const Utf8Step step = utf8_step(text, pos);
    pos += step.length;
    std::array<utf8proc_int32_t, 32> parts{};  // a character has at most 4 canonical parts
    int boundary = 0;
    const auto n =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(step.code_point), parts.data(),
                                parts.size(), UTF8PROC_DECOMPOSE, &boundary);
    points.insert(points.end(), parts.begin(), parts.begin() + std::max<utf8proc_ssize_t>(n, 0));
  }
  const auto combining_class = [](utf8proc_int32_t c) {
    return utf8proc_get_property(c)->combining_class;
  };
  for (auto it = points.begin(); it != points.end();) {
    const auto end =
        std::find_if(it, points.end(), [&](auto c) { return combining_class(c) == 0; });
    std::stable_sort(it, end,
                     [&](auto a, auto b) { return combining_class(a) < combining_class(b); });
    it = end == points.end() ? end : end + 1;
  }
  // utf8proc takes U+11A7, a vowel that composes with nothing before it, for an empty final
  // consonant and drops it. So each one begins a run that is composed by itself.
  constexpr utf8proc_int32_t kHangulBeforeFinals = 0x11A7;
  std::string out;
  out.reserve(text.size());
  for (auto it = points.begin(); it != points.end();) {
    const auto end = std::find(it + 1, points.end(), kHangulBeforeFinals);
    const auto composed = utf8proc_normalize_utf32(
        &*it, end - it, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    for (auto c = it; c != it + composed; ++c) append_utf8(out, static_cast<char32_t>(*c));
    it = end;
  }
  return out;
}

struct RegexSplitter::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

RegexSplitter::RegexSplitter(const std::string& pattern, std::string where)
    : where_(std::move(where)) {
  if (pattern.size() > kMaxPatternBytes) {
    user_error("{}: {} bytes, wanted at most {}; is it the right file?", where_, pattern.size(),
               kMaxPatternBytes);
  }
  const std::string spelled = respelled(pattern, where_);
  int error = 0;
  size_t offset = 0;
  auto code = std::make_shared<Code>();
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(spelled.data()), spelled.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_MULTILINE,
                             &error, &offset, nullptr);
  if (code->code == nullptr) {
    user_error("{}: {} is not a regular expression: {}; wanted one that PCRE2 accepts", where_,
               quote(pattern), message_of(error));
  }
  // Without just-in-time compilation (a hardened system) matching is slower, and the same.
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);
  code_ = std::move(code);
}

void RegexSplitter::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  const MatchData match(pcre2_match_data_create(1, nullptr), &pcre2_match_data_free);
  const MatchContext context(pcre2_match_context_create(nullptr), &pcre2_match_context_free);
  // A sane pattern takes a few steps a byte, a hostile one exponentially many.
  constexpr size_t kMaxSteps = std::numeric_limits<uint32_t>::max();
  pcre2_set_match_limit(context.get(),
                        static_cast<uint32_t>(std::min(kMaxSteps, 1'000'000 + 16 * text.size())));

  const auto find = [&](size_t from, uint32_t options) {
    // The text is valid UTF-8; checking it again for every match would take n^2 steps.
    return pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       options | PCRE2_NO_UTF_CHECK, match.get(), context.get());
  };
  size_t done = 0;  // text before it is in pieces
  for (size_t from = 0; from < text.size();) {
    int found = find(from, 0);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = find(from, PCRE2_NO_JIT);  // uses the heap
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      user_error("{}: matching failed at byte {} of {}: {}; wanted a simpler pattern", where_, from,
                 text.size(), message_of(found));
    }
    const size_t* range = pcre2_get_ovector_pointer(match.get());
    // \K in a lookahead can put the start after the end, or before what is done.
    const size_t end = std::max(range[1], from);
    const size_t begin = std::clamp(range[0], done, end);
    if (begin > done) pieces.push_back(text.substr(done, begin - done));
    if (end > begin) pieces.push_back(text.substr(begin, end - begin));
    done = end;
    from = end > from ? end : from + utf8_step(text, from).length;
  }
  if (done < text.size()) pieces.push_back(text.substr(done));
}

}  // namespace kv
