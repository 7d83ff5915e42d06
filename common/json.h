#pragma once

// JSON from files that anyone may have written. Included by .cpp files only: the public headers do
// not show which JSON library is underneath.

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

using Json = nlohmann::json;

/// Limits of a document, and what is said of one beyond them. A value takes some 16 to 100 bytes of
/// memory.
struct JsonLimits {
  size_t max_depth = 64;
  size_t max_values = 8'000'000;
  const char* beyond = "which no model's file needs; is it the right file?";
};

/// Parses strict JSON in UTF-8. Throws a UserError with `name`, the line and the column for
/// anything JSON does not allow, a NUL byte, a key that occurs twice in one object, a number no
/// double holds (1e400), a lone surrogate, ill-formed UTF-8, or a document beyond `limits`.
Json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits = {});

/// Reads a whole regular file of at most `max_bytes`. Throws UserError.
std::string read_file(const std::filesystem::path& path, size_t max_bytes);

/// read_file and parse_json. The cap is several times the largest tokenizer.json in use.
Json load_json(const std::filesystem::path& path, size_t max_bytes = size_t{128} << 20);

/// A JSON value for a message: its text if it is short, else its kind ("an array of 7 values").
std::string describe(const Json& value);

/// One JSON object and its place, "config.json" or "tokenizer.json: model", for its error messages.
/// Borrows the value.
class JsonObject {
 public:
  /// Throws UserError if `value` is not an object.
  JsonObject(const Json& value, std::string where);

  const std::string& where() const { return where_; }
  const Json& value() const { return *value_; }
  /// Null if there is no such key, or its value is null.
  const Json* find(const std::string& key) const;
  /// True if there is such a key, even if its value is null.
  bool has(const std::string& key) const { return value_->contains(key); }
  /// Throws UserError if there is no such key.
  const Json& at(const std::string& key) const;
  JsonObject object(const std::string& key) const;
  /// The elements of an array. Throws UserError if the key is missing or its value is no array.
  const std::vector<Json>& array(const std::string& key) const;

  /// Each throws UserError for a missing key, a wrong type or a value out of range.
  int64_t integer(const std::string& key, int64_t low, int64_t high) const;
  double number(const std::string& key) const;
  bool boolean(const std::string& key) const;
  const std::string& string(const std::string& key) const;

  /// The same with a value for "no such key" and null.
  bool boolean_or(const std::string& key, bool missing) const;
  std::string string_or(const std::string& key, const std::string& missing) const;

  /// "config.json: "hidden_size" is "x", wanted ...": the message of every wrong type.
  [[noreturn]] void wrong(const std::string& key, const std::string& wanted) const;

 private:
  const Json* value_;
  std::string where_;
};

/// `value` as an integer in [low, high]; empty if it is something else. A whole number is one
/// however it is written: 2, 2.0 and 2e0 are 2, and parse_json() keeps all digits of larger ones.
std::optional<int64_t> integer_in(const Json& value, int64_t low, int64_t high);
/// The same for 0 to 2^64 - 1.
std::optional<uint64_t> unsigned_in(const Json& value);

/// `value` as an integer in [low, high], or throws UserError: "`where` is .., wanted an integer
/// ..".
int64_t json_integer(const Json& value, const std::string& where, int64_t low, int64_t high);

}  // namespace kv
