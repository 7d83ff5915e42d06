#include "common/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <system_error>

#include "common/error.h"
#include "common/table.h"
#include "common/utf8.h"

namespace kv {
namespace {

constexpr double kExactDoubles = 0x1p53;  // below it a double holds every whole number

/// The value of "1e3", "-2.50e1" and so on, as an int64_t or a uint64_t; empty if it is not whole,
/// or too large.
std::optional<Json> whole_number(std::string_view text) {
  const size_t exponent_at = std::min(text.find_first_of("eE"), text.size());
  std::string digits(text.substr(0, exponent_at));
  int64_t exponent = 0;
  if (exponent_at < text.size()) {
    const char* begin = text.data() + exponent_at + 1;
    if (*begin == '+') ++begin;
    const auto read = std::from_chars(begin, text.data() + text.size(), exponent);
    if (read.ec != std::errc()) return std::nullopt;
  }
  if (const size_t point = digits.find('.'); point != digits.npos) {
    exponent -= std::ssize(digits) - static_cast<int64_t>(point) - 1;
    digits.erase(point, 1);
  }
  for (; exponent < 0 && digits.ends_with('0'); ++exponent) digits.pop_back();
  constexpr int64_t kMostDigits = 20;
  if (exponent < 0 || exponent > kMostDigits) return std::nullopt;
  digits.append(static_cast<size_t>(exponent), '0');
  const auto as = [&]<class Number>(Number value) -> std::optional<Json> {
    const char* const end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, value);
    return error == std::errc() && stop == end ? std::optional<Json>(value) : std::nullopt;
  };
  return digits.starts_with('-') ? as(int64_t{}) : as(uint64_t{});
}

// Builds the document from the parser's events. The parser itself keeps its state on the heap, so a
// deep document costs depth checks here and no stack.
class Builder final : public nlohmann::json_sax<Json> {
 public:
  Builder(std::string_view text, const std::string& name, const JsonLimits& limits)
      : text_(text), name_(name), limits_(limits) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    // A double has lost digits of larger whole numbers.
    const auto whole = std::abs(value) >= kExactDoubles ? whole_number(text) : std::nullopt;
    return whole ? add(*whole) : add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // JSON text has none
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& key) override {
    const auto [slot, is_new] = open_.back()->emplace(key, nullptr);
    if (!is_new) {
      user_error("{}: key {} occurs twice in one object, wanted once; remove one of them", name_,
                 quote(key));
    }
    next_ = &*slot;
    return true;
  }

  /// `position`: number of bytes read, which exceeds the size at the end of the text. `last`: the
  /// last token, a whole string or number, or one cut off by the wrong character.
  bool parse_error(std::size_t position, const std::string& last,
                   const nlohmann::detail::exception& error) override {
    constexpr int kNumberOverflow = 406;
    const bool overflows = error.id == kNumberOverflow, ended = position > text_.size();
    const bool is_string = last.starts_with('"') && text_.substr(0, position).ends_with('"');
    const bool is_whole = !ended && (overflows || is_string);
    const size_t size = ended ? 0 : is_whole ? std::min(last.size(), position) : 1;
    const size_t begin = std::min(position, text_.size()) - size;
    const std::string_view before = text_.substr(0, begin);
    const auto line = 1 + std::ranges::count(before, '\n');
    std::string found = quote(text_.substr(begin, size));
    found.front() = found.back() = '\'';  // double quotes are those of a JSON string
    user_error("{}: not valid JSON at {}column {}: found {}, wanted {}; correct it", name_,
               line > 1 ? fmt::format("line {}, ", line) : "", begin - (before.rfind('\n') + 1) + 1,
               ended ? "the end" : found,
               overflows ? "a number that a double holds" : "strict JSON in UTF-8");
  }

 private:
  Json* place(Json value) {
    if (++num_values_ > limits_.max_values) {
      user_error("{}: more than {} JSON values, {}", name_, limits_.max_values, limits_.beyond);
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    *next_ = std::move(value);
    return next_;
  }

  bool add(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (open_.size() == limits_.max_depth) {
      user_error("{}: JSON nested deeper than {} levels, {}", name_, limits_.max_depth,
                 limits_.beyond);
    }
    // An empty list takes 2 bytes of a file and dozens of memory: no more of them than a file of
    // short lists has, so that a document never takes 20 times its file.
    constexpr size_t kFewestBytes = 8;
    constexpr size_t kAlwaysLegal = 1000;
    if (++num_containers_ > text_.size() / kFewestBytes + kAlwaysLegal) {
      user_error("{}: {} lists and objects in {} bytes, wanted at most one in {}; is it damaged?",
                 name_, num_containers_, text_.size(), kFewestBytes);
    }
    open_.push_back(place(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  const std::string& name_;
  JsonLimits limits_;
  Json root_;
  std::vector<Json*> open_;  // arrays and objects not closed yet: only the last one grows
  Json* next_ = nullptr;     // where the value of the last key goes
  size_t num_values_ = 0;
  size_t num_containers_ = 0;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits) {
  if (text.empty()) user_error("{}: the file is empty, wanted JSON; download it again", name);
  if (const size_t nul = text.find('\0'); nul != text.npos) {  // the parser takes it for the end
    user_error("{}: byte {} is NUL, wanted strict JSON in UTF-8; is it damaged?", name, nul);
  }
  Builder builder(text, name, limits);
  Json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string read_file(const std::filesystem::path& path, size_t max_bytes) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    user_error("{}: no such file; wanted one to read, check the path", path.string());
  }
  if (!std::filesystem::is_regular_file(status)) {
    user_error("{}: not a regular file, wanted one to read", path.string());
  }
  const auto size = std::filesystem::file_size(path, error);
  if (error || size > max_bytes) {
    user_error("{}: {} bytes, wanted at most {}; is it the right file?", path.string(), size,
               max_bytes);
  }
  std::string text(static_cast<size_t>(size), '\0');
  std::ifstream in(path, std::ios::binary);
  if (!in || !in.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    user_error("{}: cannot be read ({} wanted); check its permissions", path.string(),
               count_of(static_cast<int64_t>(size), "byte"));
  }
  return text;
}

Json load_json(const std::filesystem::path& path, size_t max_bytes) {
  return parse_json(read_file(path, max_bytes), path.string());
}

std::string describe(const Json& value) {
  if (value.is_array()) return "an array of " + count_of(std::ssize(value), "value");
  if (value.is_object()) return "an object of " + count_of(std::ssize(value), "key");
  if (value.is_string()) return quote(value.get_ref<const std::string&>());
  return value.dump();
}

JsonObject::JsonObject(const Json& value, std::string where)
    : value_(&value), where_(std::move(where)) {
  if (!value.is_object()) {
    user_error("{}: found {}, wanted a JSON object; is it the right file?", where_,
               describe(value));
  }
}

const Json* JsonObject::find(const std::string& key) const {
  const auto it = value_->find(key);
  return it == value_->end() || it->is_null() ? nullptr : &*it;
}

const Json& JsonObject::at(const std::string& key) const {
  const auto it = value_->find(key);
  if (it == value_->end()) {
    user_error("{}: key {} is missing; wanted a file that has it", where_, quote(key));
  }
  return *it;
}

JsonObject JsonObject::object(const std::string& key) const {
  return JsonObject(at(key), fmt::format("{}: {}", where_, quote(key)));
}

const std::vector<Json>& JsonObject::array(const std::string& key) const {
  const Json& value = at(key);
  if (!value.is_array()) wrong(key, "an array");
  return value.get_ref<const std::vector<Json>&>();
}

int64_t JsonObject::integer(const std::string& key, int64_t low, int64_t high) const {
  const std::optional<int64_t> found = integer_in(at(key), low, high);
  if (!found) wrong(key, fmt::format("an integer from {} to {}", low, high));
  return *found;
}

double JsonObject::number(const std::string& key) const {
  const Json& value = at(key);
  if (!value.is_number()) wrong(key, "a number");
  return value.get<double>();
}

bool JsonObject::boolean(const std::string& key) const {
  const Json& value = at(key);
  if (!value.is_boolean()) wrong(key, "true or false");
  return value.get<bool>();
}

const std::string& JsonObject::string(const std::string& key) const {
  const Json& value = at(key);
  if (!value.is_string()) wrong(key, "a string");
  return value.get_ref<const std::string&>();
}

bool JsonObject::boolean_or(const std::string& key, bool missing) const {
  return find(key) ? boolean(key) : missing;
}

std::string JsonObject::string_or(const std::string& key, const std::string& missing) const {
  return find(key) ? string(key) : missing;
}

void JsonObject::wrong(const std::string& key, const std::string& wanted) const {
  user_error("{}: {} is {}, wanted {}; correct this value", where_, quote(key), describe(at(key)),
             wanted);
}

std::optional<int64_t> integer_in(const Json& value, int64_t low, int64_t high) {
  int64_t found = 0;
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (std::abs(number) >= kExactDoubles || std::trunc(number) != number) return std::nullopt;
    found = static_cast<int64_t>(number);
  } else if (!value.is_number_integer() ||
             // An unsigned value above INT64_MAX must not wrap into the range.
             (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX})) {
    return std::nullopt;
  } else {
    found = value.get<int64_t>();
  }
  return found >= low && found <= high ? std::optional(found) : std::nullopt;
}

std::optional<uint64_t> unsigned_in(const Json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  const std::optional<int64_t> found = integer_in(value, 0, INT64_MAX);
  return found ? std::optional(static_cast<uint64_t>(*found)) : std::nullopt;
}

int64_t json_integer(const Json& value, const std::string& where, int64_t low, int64_t high) {
  const std::optional<int64_t> found = integer_in(value, low, high);
  if (!found) {
    user_error("{} is {}, wanted an integer from {} to {}; correct this value", where,
               describe(value), low, high);
  }
  return *found;
}

}  // namespace kv
