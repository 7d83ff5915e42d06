#include "qwen3/tokenizer.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "common/error.h"
#include "common/json.h"
#include "common/utf8.h"
#include "qwen3/tokenizer_bpe.h"
#include "qwen3/tokenizer_file.h"
#include "qwen3/tokenizer_split.h"

namespace kv {
namespace {

// Finds added tokens in text: the leftmost, and the longest of those that start there.
class AddedTokenFinder {
 public:
  void add(std::string_view text, const AddedToken& token) {
    tokens_.emplace(text, &token);
    std::vector<size_t>& lengths = lengths_[static_cast<uint8_t>(text[0])];
    if (std::ranges::find(lengths, text.size()) == lengths.end()) lengths.push_back(text.size());
    std::ranges::sort(lengths, std::greater<>());
  }

  /// Calls plain(text) and token(id) in order. A special token at a place where special_at(place)
  /// is false is plain text.
  template <typename SpecialAt, typename Plain, typename Token>
  void split(std::string_view text, const SpecialAt& special_at, const Plain& plain,
             const Token& token) const {
    size_t begin = 0;
    for (size_t pos = 0; pos < text.size();) {
      const auto it = find_at(text, pos, special_at);
      if (it == tokens_.end()) {
        ++pos;
        continue;
      }
      if (pos > begin) plain(text.substr(begin, pos - begin));
      token(it->second->id);
      pos += it->first.size();
      begin = pos;
    }
    if (begin < text.size()) plain(text.substr(begin));
  }

 private:
  using Tokens = std::unordered_map<std::string_view, const AddedToken*>;
  Tokens::const_iterator find_at(std::string_view text, size_t pos, const auto& special_at) const {
    for (const size_t length : lengths_[static_cast<uint8_t>(text[pos])]) {
      if (pos + length > text.size()) continue;
      const auto it = tokens_.find(text.substr(pos, length));
      if (it != tokens_.end() && (!it->second->special || special_at(pos))) return it;
    }
    return tokens_.end();
  }

  Tokens tokens_;
  std::array<std::vector<size_t>, 256> lengths_;  // by first byte; longest first
};

}  // namespace

struct Tokenizer::Impl {
  Impl(TokenizerFile parsed, const std::string& name, TokenizerConfig read)
      : file(std::move(parsed)), config(std::move(read)), bpe(file.byte_ids, file.merges) {
    for (const std::string& pattern : file.split_patterns) {
      splitters.emplace_back(pattern, name + ": pre_tokenizer pattern");
    }
    // Views into `file`, which is complete and stays where it is.
    for (const AddedToken& token : file.added) {
      added.emplace(token.text, &token);
      added_by_id.emplace(token.id, &token);
      const std::string& text = token.text;
      if (!token.normalized) {
        raw_finder.add(text, token);
      } else {
        normalized_texts.push_back(normalize(text));
      }
    }
    size_t next = 0;
    for (const AddedToken& token : file.added) {
      if (token.normalized) normalized_finder.add(normalized_texts[next++], token);
    }
  }

  std::string normalize(std::string_view text) const {
    return file.nfc ? to_nfc(text) : std::string(text);
  }

  void encode_words(std::string_view text, std::vector<int32_t>& ids) const;

  const TokenizerFile file;
  const TokenizerConfig config;
  const Bpe bpe;
  std::vector<RegexSplitter> splitters;
  std::unordered_map<std::string_view, const AddedToken*> added;
  std::unordered_map<int32_t, const AddedToken*> added_by_id;
  std::vector<std::string> normalized_texts;
  AddedTokenFinder raw_finder;         // matched in the text as it came
  AddedTokenFinder normalized_finder;  // matched after normalisation
};

// Text without added tokens: split, then BPE word by word.
void Tokenizer::Impl::encode_words(std::string_view text, std::vector<int32_t>& ids) const {
  std::vector<std::string_view> words{text};
  for (const RegexSplitter& splitter : splitters) {
    std::vector<std::string_view> pieces;
    for (const std::string_view word : words) splitter.split(word, pieces);
    words = std::move(pieces);
  }
  // A word seen before has its ids in the output already: remember where, and copy them.
  constexpr size_t kLongestRemembered = 128;
  std::unordered_map<std::string_view, std::pair<size_t, size_t>> seen;
  for (const std::string_view word : words) {
    const bool remember = word.size() <= kLongestRemembered;
    if (remember) {
      if (const auto it = seen.find(word); it != seen.end()) {
        const auto [begin, end] = it->second;
        for (size_t i = begin; i < end; ++i) ids.push_back(ids[i]);
        continue;
      }
    }
    const size_t begin = ids.size();
    bpe.encode(word, ids);
    if (remember) seen.emplace(word, std::pair{begin, ids.size()});
  }
}

Tokenizer::Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::load(const std::filesystem::path& dir) {
  constexpr size_t kMaxBytes = size_t{128} << 20;
  const std::filesystem::path path = dir / "tokenizer.json";
  TokenizerFile file = parse_tokenizer_file(read_file(path, kMaxBytes), path.string());
  TokenizerConfig config = load_tokenizer_config(dir, file);
  Tokenizer tokenizer;
  tokenizer.impl_ = std::make_unique<Impl>(std::move(file), path.string(), std::move(config));
  return tokenizer;
}

Tokenizer Tokenizer::parse(std::string_view json, const std::string& name) {
  Tokenizer tokenizer;
  tokenizer.impl_ =
      std::make_unique<Impl>(parse_tokenizer_file(json, name), name, TokenizerConfig());
  return tokenizer;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool parse_special) const {
  const std::string clean = replace_invalid_utf8(text);
  const TextPart all{0, parse_special ? 0 : clean.size()};
  return encode(clean, {&all, 1});
}

std::vector<int32_t> Tokenizer::encode(std::string_view text,
                                       std::span<const TextPart> plain) const {
  const Impl& impl = *impl_;
  std::vector<int32_t> ids;
  // The last part that begins at `end` or before it ends after `begin`.
  const auto touches_plain = [&](size_t begin, size_t end) {
    const auto next = std::ranges::upper_bound(plain, end, {}, &TextPart::begin);
    return next != plain.begin() && std::prev(next)->end > begin;
  };
  const auto special_at = [&](size_t place) { return !touches_plain(place, place); };
  const auto token = [&](int32_t id) { ids.push_back(id); };
  const auto words = [&](std::string_view part) { impl.encode_words(part, ids); };
  const auto normalize_and_split = [&](std::string_view part) {
    const auto begin = static_cast<size_t>(part.data() - text.data());
    const bool special = !touches_plain(begin, begin + part.size() - 1);
    impl.normalized_finder.split(
        impl.normalize(part), [&](size_t) { return special; }, words, token);
  };
  impl.raw_finder.split(text, special_at, normalize_and_split, token);
  return ids;
}

std::vector<int32_t> Tokenizer::with_special_tokens(std::vector<int32_t> ids) const {
  const auto& [before, after] = impl_->config.around ? *impl_->config.around : impl_->file.around;
  ids.insert(ids.begin(), before.begin(), before.end());
  ids.insert(ids.end(), after.begin(), after.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    const std::string_view token = token_bytes(id);
    if (!skip_special || !is_special(id)) bytes += token;
  }
  return replace_invalid_utf8(bytes);
}

std::string Tokenizer::shown(std::span<const int32_t> ids) const {
  std::string bytes;
  for (const int32_t id : ids) bytes += has(id) ? token_bytes(id) : "\uFFFD";
  std::string text = replace_invalid_utf8(bytes);
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
    text.replace(at, 1, "\\n");
  }
  return text;
}

bool Tokenizer::has(int32_t id) const {
  const auto& tokens = impl_->file.tokens;
  return id >= 0 && static_cast<size_t>(id) < tokens.size() && tokens[static_cast<size_t>(id)];
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  const auto& tokens = impl_->file.tokens;
  if (!has(id)) {
    user_error("token id {}: unknown, wanted one of the tokenizer's ids, from 0 to {}", id,
               tokens.size() - 1);
  }
  return *tokens[static_cast<size_t>(id)];
}

bool Tokenizer::is_special(int32_t id) const {
  const auto it = impl_->added_by_id.find(id);
  return it != impl_->added_by_id.end() && it->second->special;
}

std::optional<int32_t> Tokenizer::id_of_special(std::string_view text) const {
  const auto it = impl_->added.find(text);
  if (it == impl_->added.end()) return std::nullopt;
  return it->second->id;
}

std::vector<std::string> Tokenizer::special_texts() const {
  std::vector<std::string> texts;
  for (const AddedToken& token : impl_->file.added) {
    if (token.special) texts.push_back(token.text);
  }
  return texts;
}

const TokenizerConfig& Tokenizer::config() const { return impl_->config; }

std::vector<int32_t> Tokenizer::with_eos_token(std::vector<int32_t> ids) const {
  const std::optional<int32_t> eos = impl_->config.eos_id;
  if (eos && std::ranges::find(ids, *eos) == ids.end()) ids.push_back(*eos);
  return ids;
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(impl_->file.tokens.size()); }

std::string StreamingDecoder::push(int32_t id) {
  if (!tokenizer_->has(id)) return finish() + "\uFFFD";
  if (!tokenizer_->is_special(id)) pending_ += tokenizer_->token_bytes(id);
  const size_t whole = pending_.size() - unfinished_utf8_bytes(pending_);
  std::string text = replace_invalid_utf8(std::string_view(pending_).substr(0, whole));
  pending_.erase(0, whole);
  return text;
}

std::string StreamingDecoder::finish() {
  std::string text = replace_invalid_utf8(pending_);
  pending_.clear();
  return text;
}

}  // namespace kv
