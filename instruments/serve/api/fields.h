#pragma once

// The fields of a request's body. A wrong one is an ApiError with its name.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/json.h"

namespace serve {

/// A JSON object whose fields are read one after the other. null means "not given". Borrows the
/// object.
class Fields {
 public:
  /// `where` is before the names of its fields: "stream_options.".
  explicit Fields(const kv::Json& object, std::string where = {});

  /// Null if the field is missing, or null.
  const kv::Json* find(const std::string& name);
  bool boolean(const std::string& name, bool missing);
  std::string text(const std::string& name, const std::string& missing = {});
  std::optional<int64_t> integer(const std::string& name, int64_t low, int64_t high);
  /// Up to the largest int.
  std::optional<int> small(const std::string& name, int low);
  float number(const std::string& name, double low, double high, const char* wanted,
               double missing);
  /// A list of token ids; none if the field is missing.
  std::vector<int32_t> token_ids(const std::string& name);
  /// The field `name` has such a list, which must be one of `wanted`.
  std::vector<int32_t> token_ids(const std::string& name, const kv::Json& list,
                                 const std::string& wanted = "a list of token ids") const;

  /// Fields for which the course has nothing: {"NAME": [VALUE, ..]}. Throws if one has another
  /// value. A field with null instead of values changes nothing here, whatever it has.
  void refuse(const kv::Json& values_by_name);
  /// Names that were not asked for.
  std::vector<std::string> unknown() const;

  /// "`name` is .., wanted `wanted`"
  [[noreturn]] void wrong(const std::string& name, const std::string& wanted) const;

 private:
  const kv::Json* object_;
  std::string where_;
  std::set<std::string> known_;
};

/// Parses a body: one JSON object. Throws ApiError.
kv::Json parse_body(std::string_view body, size_t max_values = 2'000'000);

}  // namespace serve
