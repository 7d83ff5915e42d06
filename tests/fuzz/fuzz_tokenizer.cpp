// The tokenizer with any bytes. The first byte chooses: a tokenizer.json to parse, or a prompt for
// a tokenizer that is known to be good.
#include "common/error.h"
#include "qwen3/tokenizer.h"
#include "qwen3/tokenizer_split.h"
#include "tests/files/small_tokenizer.h"
#include "tests/fuzz/fuzz.h"

namespace {

using kv::fuzz::require;

// Decoding gives the text back, and streaming gives the same text.
void check_round_trip(const kv::Tokenizer& tokenizer, std::string_view text, bool nfc) {
  const std::string clean = kv::replace_invalid_utf8(text);
  for (const bool special : {false, true}) {
    const std::vector<int32_t> ids = tokenizer.encode(text, special);
    const std::string decoded = tokenizer.decode(ids);
    // An added token is no part of the text that is normalised: "<think>" and U+0338 stay apart.
    if (nfc) require(kv::to_nfc(decoded) == kv::to_nfc(clean));
    kv::StreamingDecoder stream(tokenizer);
    std::string streamed;
    for (const int32_t id : ids) {
      const std::string piece = stream.push(id);
      require(kv::is_valid_utf8(piece));
      streamed += piece;
    }
    require(streamed + stream.finish() == tokenizer.decode(ids, true));
  }
}

void parse_file(std::string_view json) {
  try {
    const kv::Tokenizer tokenizer = kv::Tokenizer::parse(json, "tokenizer.json");
    check_round_trip(tokenizer, "Hello, w\xC3\xB6rld!  1234 \n\xFF\xE2\x82<|end|>", false);
  } catch (const kv::UserError& error) {
    kv::fuzz::check_message(error.what());
  }
}

const kv::Tokenizer& good_tokenizer() {
  static const kv::Tokenizer tokenizer = kv::Tokenizer::parse(
      kv::testing::small_tokenizer(
          {{"a", "a"}, {"aa", "aa"}, {"h", "e"}, {" ", "he"}, {"\xC3", "\xA9"}})
          .dump(),
      "good");
  return tokenizer;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest = kv::fuzz::text(data + 1, size - 1);
  if (data[0] == 'J') {
    parse_file(rest);
  } else {
    check_round_trip(good_tokenizer(), rest, true);
  }
  return 0;
}
