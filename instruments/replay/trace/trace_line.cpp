#include "instruments/replay/trace/trace_line.h"

#include <charconv>

#include "common/error.h"
#include "common/json.h"

namespace replay {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 40;

/// Reads a line of the common form: the keys of the format, whole numbers, nothing else. Ten times
/// faster than a parser that makes a document of it, which reads every other line.
class PlainLine {
 public:
  explicit PlainLine(std::string_view text) : at_(text.data()), end_(at_ + text.size()) {}

  bool read(TraceLine& line) {
    uint64_t input = 0, output = 0, timestamp = 0, block_size = 0;
    unsigned seen = 0;  // a bit for each key
    if (!take('{')) return false;
    do {
      const std::string_view name = key();
      bool ok = false;
      unsigned bit = 0;
      if (name == "timestamp") {
        bit = 1, ok = number(timestamp);
      } else if (name == "input_length") {
        bit = 2, ok = number(input);
      } else if (name == "output_length") {
        bit = 4, ok = number(output);
      } else if (name == "hash_ids") {
        bit = 8, ok = numbers(line.hash_ids);
      } else if (name == "block_size") {
        bit = 16, ok = number(block_size) && block_size > 0;
      }
      if (!ok || (seen & bit) != 0) return false;
      seen |= bit;
    } while (take(','));
    if (!take('}')) return false;
    skip_space();
    if (at_ != end_ || (seen & 14) != 14) return false;
    if (input > kMaxTokens || output > kMaxTokens || block_size > kMaxBlockSize) return false;
    line.timestamp = (seen & 1) != 0 ? static_cast<double>(timestamp) : -1;
    line.input_length = static_cast<int64_t>(input);
    line.output_length = static_cast<int64_t>(output);
    line.block_size = static_cast<int64_t>(block_size);
    return true;
  }

 private:
  void skip_space() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool take(char wanted) {
    skip_space();
    if (at_ == end_ || *at_ != wanted) return false;
    ++at_;
    return true;
  }
  /// With the colon after it; empty for anything else.
  std::string_view key() {
    if (!take('"')) return {};
    const char* const begin = at_;
    while (at_ < end_ && ((*at_ >= 'a' && *at_ <= 'z') || *at_ == '_')) ++at_;
    const std::string_view name(begin, static_cast<size_t>(at_ - begin));
    if (at_ == end_ || *at_++ != '"') return {};  // no space before it
    return take(':') ? name : std::string_view();
  }
  bool number(uint64_t& value) {
    skip_space();
    const char* const begin = at_;
    const auto [stop, error] = std::from_chars(at_, end_, value);
    at_ = stop;
    const bool padded = stop - begin > 1 && *begin == '0';
    const bool goes_on = stop < end_ && (*stop == '.' || *stop == 'e' || *stop == 'E');
    return error == std::errc() && !padded && !goes_on;
  }
  bool numbers(std::vector<uint64_t>& values) {
    if (!take('[')) return false;
    if (take(']')) return true;
    do {
      if (!number(values.emplace_back())) return false;
    } while (take(','));
    return take(']');
  }

  const char* at_;
  const char* end_;
};

uint64_t id_of(const kv::Json& value, const std::string& where) {
  const std::optional<uint64_t> id = kv::unsigned_in(value);
  if (!id) {
    kv::user_error("{}: a hash id is {}, wanted an integer from 0 to 2^64 - 1", where,
                   kv::describe(value));
  }
  return *id;
}

}  // namespace

void parse_trace_line(std::string_view text, const std::string& where, TraceLine& line) {
  line.hash_ids.clear();
  if (PlainLine(text).read(line)) return;
  const kv::Json json = kv::parse_json(text, where);
  const kv::JsonObject request(json, where);
  line.timestamp = request.has("timestamp") ? request.number("timestamp") : -1;
  if (request.has("timestamp") && !(line.timestamp >= 0)) {
    request.wrong("timestamp", "a number from 0 on");
  }
  line.input_length = request.integer("input_length", 0, kMaxTokens);
  line.output_length = request.integer("output_length", 0, kMaxTokens);
  line.block_size =
      request.find("block_size") == nullptr ? 0 : request.integer("block_size", 1, kMaxBlockSize);
  line.hash_ids.clear();
  for (const kv::Json& id : request.array("hash_ids")) line.hash_ids.push_back(id_of(id, where));
}

}  // namespace replay
