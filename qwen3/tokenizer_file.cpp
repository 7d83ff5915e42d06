#include "qwen3/tokenizer_file.h"

#include <array>
#include <unordered_map>
#include <unordered_set>

#include "common/error.h"
#include "common/json.h"
#include "common/utf8.h"

namespace kv {
namespace {

constexpr int64_t kMaxTokenId = (int64_t{1} << 21) - 1;  // about ten times the largest vocabulary

// Pattern by which ByteLevel with use_regex splits: GPT-2's.
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

using VocabIds = std::unordered_map<std::string, int32_t>;  // token as the file spells it -> id

// GPT-2's spelling of bytes: printable Latin-1 stands for itself, the other 68 bytes are the
// characters from U+0100 on, in order. So a space is U+0120.
std::array<char32_t, 256> byte_characters() {
  std::array<char32_t, 256> table{};
  char32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    table[byte] = printable ? byte : next++;
  }
  return table;
}

// The bytes that a token of the file stands for. One with a character outside the table stands for
// its own UTF-8 bytes, as in the reference implementation.
class ByteSpelling {
 public:
  ByteSpelling() {
    const std::array<char32_t, 256> characters = byte_characters();
    for (size_t byte = 0; byte < 256; ++byte) bytes_[characters[byte]] = static_cast<char>(byte);
  }
  std::string bytes_of(const std::string& token) const {
    std::string bytes;
    for (size_t pos = 0; pos < token.size();) {
      const Utf8Step step = utf8_step(token, pos);
      const auto it = bytes_.find(step.code_point);
      if (it == bytes_.end()) return token;
      bytes.push_back(it->second);
      pos += step.length;
    }
    return bytes;
  }

 private:
  std::unordered_map<char32_t, char> bytes_;
};

// Refuses `object` unless each listed key, if it is there at all, has the listed value.
void want_values(const JsonObject& object,
                 std::initializer_list<std::pair<const char*, Json>> list) {
  for (const auto& [key, wanted] : list) {
    const Json* found = object.find(key);
    if (found != nullptr && *found != wanted) object.wrong(key, wanted.dump());
  }
}

// null, NFC, or a Sequence of these.
bool read_normalizer(const JsonObject& object) {
  const std::string type = object.string("type");
  if (type == "NFC") return true;
  if (type != "Sequence") object.wrong("type", "\"NFC\" or no normalizer");
  bool nfc = false;
  for (const Json& part : object.array("normalizers")) {
    nfc |= read_normalizer(JsonObject(part, object.where() + ": normalizers"));
  }
  return nfc;
}

// The parts of a pre-tokenizer: any number of Split(Regex), and one ByteLevel at the end.
void read_pre_tokenizer(const JsonObject& root, std::vector<std::string>& patterns) {
  const JsonObject top = root.object("pre_tokenizer");
  std::vector<JsonObject> parts;
  if (top.string("type") == "Sequence") {
    for (const Json& part : top.array("pretokenizers")) {
      parts.emplace_back(part, top.where() + ": pretokenizers");
    }
  } else {
    parts.push_back(top);
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    const JsonObject& part = parts[i];
    const bool last = i + 1 == parts.size();
    if (part.string("type") != (last ? "ByteLevel" : "Split")) {
      part.wrong("type", "Split parts and then one \"ByteLevel\"");
    }
    if (last) {
      want_values(part, {{"add_prefix_space", false}});
      if (part.boolean_or("use_regex", true)) patterns.emplace_back(kGpt2Pattern);
    } else {
      want_values(part, {{"behavior", "Isolated"}, {"invert", false}});
      patterns.push_back(part.object("pattern").string("Regex"));
    }
  }
  if (parts.empty()) top.wrong("pretokenizers", "at least a ByteLevel part");
}

void read_vocab(const JsonObject& model, const ByteSpelling& spelling, VocabIds& ids,
                TokenizerFile& file) {
  const JsonObject vocab = model.object("vocab");
  for (const auto& [token, value] : vocab.value().items()) {
    const std::optional<int64_t> found = integer_in(value, 0, kMaxTokenId);
    if (!found) vocab.wrong(token, fmt::format("an id from 0 to {}", kMaxTokenId));
    const auto id = static_cast<size_t>(*found);
    if (file.tokens.size() <= id) file.tokens.resize(id + 1);
    if (file.tokens[id]) {
      user_error("{}: {} has id {}, which {} has too; wanted distinct ids, download the file again",
                 vocab.where(), quote(token), id, quote(*file.tokens[id]));
    }
    file.tokens[id] = spelling.bytes_of(token);
    ids.emplace(token, static_cast<int32_t>(id));
  }
  for (int byte = 0; byte < 256; ++byte) {
    const std::string token = byte_spelling(static_cast<uint8_t>(byte));
    const auto it = ids.find(token);
    if (it == ids.end()) {
      user_error("{}: no token for byte {:#04x} ({}), wanted all 256; is it a byte-level BPE?",
                 vocab.where(), byte, quote(token));
    }
    file.byte_ids.push_back(it->second);
  }
}

// "left right" (older files) or ["left", "right"]; none for something else.
std::optional<std::pair<std::string, std::string>> read_pair(const Json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return std::pair{merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != text.npos && text.find(' ', space + 1) == text.npos) {
      return std::pair{text.substr(0, space), text.substr(space + 1)};
    }
  }
  return std::nullopt;
}

void read_merges(const JsonObject& model, const VocabIds& ids, TokenizerFile& file) {
  std::unordered_set<uint64_t> seen;
  const std::vector<Json>& merges = model.array("merges");
  file.merges.reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const auto where = [&] { return fmt::format("{}: merge {}", model.where(), rank); };
    const auto pair = read_pair(merges[rank]);
    if (!pair) {
      user_error(
          "{} is {}, wanted \"left right\" or [\"left\", \"right\"]; download the file again",
          where(), describe(merges[rank]));
    }
    const std::string& left = pair->first;
    const std::string& right = pair->second;
    const auto id_of = [&](const std::string& token) {
      const auto it = ids.find(token);
      if (it == ids.end()) {
        user_error("{} ({} + {}) needs token {}, which the vocab lacks; download the file again",
                   where(), quote(left), quote(right), quote(token));
      }
      return it->second;
    };
    const Merge merge{id_of(left), id_of(right), id_of(left + right)};
    const uint64_t key =
        uint64_t{static_cast<uint32_t>(merge.left)} << 32 | static_cast<uint32_t>(merge.right);
    if (left.empty() || right.empty() || !seen.insert(key).second) {
      user_error("{} ({} + {}) is empty or there twice; wanted distinct merges, download it again",
                 where(), quote(left), quote(right));
    }
    file.merges.push_back(merge);
  }
}

void read_model(const JsonObject& root, TokenizerFile& file, VocabIds& ids) {
  const JsonObject model = root.object("model");
  if (model.string_or("type", "BPE") != "BPE") model.wrong("type", "\"BPE\"");
  // "unk_token" and "byte_fallback" act on bytes without a token; here each byte has one.
  want_values(model, {{"dropout", 0.0},
                      {"continuing_subword_prefix", ""},
                      {"end_of_word_suffix", ""},
                      {"ignore_merges", false}});
  read_vocab(model, ByteSpelling(), ids, file);
  read_merges(model, ids, file);
}

void read_added_tokens(const JsonObject& root, const VocabIds& ids, TokenizerFile& file) {
  if (root.find("added_tokens") == nullptr) return;
  std::unordered_set<std::string> texts;
  for (const Json& value : root.array("added_tokens")) {
    const JsonObject object(value, root.where() + ": added_tokens");
    want_values(object, {{"single_word", false}, {"lstrip", false}, {"rstrip", false}});
    AddedToken token;
    token.text = object.string("content");
    token.id = static_cast<int32_t>(object.integer("id", 0, kMaxTokenId));
    token.special = object.boolean_or("special", false);
    token.normalized = object.boolean_or("normalized", !token.special);
    const std::string where = fmt::format("{}: {}", object.where(), quote(token.text));
    if (token.text.empty() || !texts.insert(token.text).second) {
      user_error("{} is empty or there twice; wanted distinct tokens, download the file again",
                 where);
    }
    const auto known = ids.find(token.text);
    const auto id = static_cast<size_t>(token.id);
    if (known != ids.end() && known->second != token.id) {
      user_error("{} has id {}, in the vocab it has {}; wanted one id, download the file again",
                 where, id, known->second);
    }
    if (file.tokens.size() <= id) file.tokens.resize(id + 1);
    if (file.tokens[id] && known == ids.end()) {
      user_error("{} has id {}, which {} has too; wanted distinct ids, download the file again",
                 where, id, quote(*file.tokens[id]));
    }
    file.tokens[id] = token.text;
    file.added.push_back(std::move(token));
  }
}

// The ids of a special token of TemplateProcessing, which names it by its text.
std::vector<int32_t> ids_of_special(const JsonObject& processor, const Json& part,
                                    const TokenizerFile& file) {
  const std::string name = JsonObject(part, processor.where() + ": single").string("id");
  const JsonObject token = processor.object("special_tokens").object(name);
  std::vector<int32_t> ids;
  for (const Json& id : token.array("ids")) {
    ids.push_back(static_cast<int32_t>(json_integer(id, token.where() + ": ids", 0, kMaxTokenId)));
    const auto at = static_cast<size_t>(ids.back());
    if (at >= file.tokens.size() || !file.tokens[at]) token.wrong("ids", "ids of the vocab");
  }
  return ids;
}

// Sequence of ByteLevel, which changes offsets alone, and TemplateProcessing of a single text.
void read_post_processor(const JsonObject& object, TokenizerFile& file) {
  const std::string& type = object.string("type");
  if (type == "Sequence") {
    for (const Json& part : object.array("processors")) {
      read_post_processor(JsonObject(part, object.where() + ": processors"), file);
    }
    return;
  }
  if (type == "ByteLevel") return;
  if (type != "TemplateProcessing") {
    object.wrong("type", "\"ByteLevel\", \"TemplateProcessing\" or a \"Sequence\" of them");
  }
  std::vector<int32_t> before, after;
  int num_texts = 0;
  for (const Json& value : object.array("single")) {
    const JsonObject part(value, object.where() + ": single");
    if (part.find("Sequence") != nullptr) {
      ++num_texts;
      continue;
    }
    std::vector<int32_t>& side = num_texts == 0 ? before : after;
    for (const int32_t id : ids_of_special(object, part.at("SpecialToken"), file)) {
      side.push_back(id);
    }
  }
  if (num_texts != 1) object.wrong("single", "one \"Sequence\", the text");
  TokensAround& around = file.around;
  around.before.insert(around.before.begin(), before.begin(), before.end());
  around.after.insert(around.after.end(), after.begin(), after.end());
}

}  // namespace

std::string byte_spelling(uint8_t byte) {
  static const std::array<char32_t, 256> kCharacters = byte_characters();
  std::string token;
  append_utf8(token, kCharacters[byte]);
  return token;
}

TokenizerFile parse_tokenizer_file(std::string_view text, const std::string& name) {
  const Json json = parse_json(text, name);
  const JsonObject root(json, name);
  TokenizerFile file;
  if (root.find("normalizer")) file.nfc = read_normalizer(root.object("normalizer"));
  read_pre_tokenizer(root, file.split_patterns);
  const JsonObject decoder = root.object("decoder");
  if (decoder.string("type") != "ByteLevel") decoder.wrong("type", "\"ByteLevel\"");
  VocabIds ids;
  read_model(root, file, ids);
  read_added_tokens(root, ids, file);
  if (root.find("post_processor")) read_post_processor(root.object("post_processor"), file);
  return file;
}

}  // namespace kv
