#include "instruments/serve/api/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "instruments/serve/api/error.h"

namespace serve {

kv::Json parse_body(std::string_view body, size_t max_values) {
  if (body.empty()) throw ApiError(400, "the body is empty, wanted a JSON object");
  constexpr const char* kBeyond = "which is more than this server takes; wanted fewer";
  try {
    kv::Json json = kv::parse_json(body, "the body", {128, max_values, kBeyond});
    if (!json.is_object()) throw ApiError(400, "the body is no JSON object");
    return json;
  } catch (const kv::UserError& error) {
    throw ApiError(400, error.what());
  }
}

Fields::Fields(const kv::Json& object, std::string where)
    : object_(&object), where_(std::move(where)) {}

const kv::Json* Fields::find(const std::string& name) {
  known_.insert(name);
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

void Fields::wrong(const std::string& name, const std::string& wanted) const {
  const auto found = object_->find(name);
  const std::string value = found == object_->end() ? "missing" : kv::describe(*found);
  throw ApiError(400, fmt::format("{}{} is {}, wanted {}", where_, name, value, wanted),
                 where_ + name);
}

bool Fields::boolean(const std::string& name, bool missing) {
  const kv::Json* value = find(name);
  if (value == nullptr) return missing;
  if (!value->is_boolean()) wrong(name, "true or false");
  return value->get<bool>();
}

std::string Fields::text(const std::string& name, const std::string& missing) {
  const kv::Json* value = find(name);
  if (value == nullptr) return missing;
  if (!value->is_string()) wrong(name, "a string");
  return value->get<std::string>();
}

std::optional<int64_t> Fields::integer(const std::string& name, int64_t low, int64_t high) {
  const kv::Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = kv::integer_in(*value, low, high);
  if (!number) wrong(name, fmt::format("an integer from {} to {}", low, high));
  return number;
}

std::optional<int> Fields::small(const std::string& name, int low) {
  const auto value = integer(name, low, INT32_MAX);
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

float Fields::number(const std::string& name, double low, double high, const char* wanted,
                     double missing) {
  const kv::Json* value = find(name);
  if (value == nullptr) return static_cast<float>(missing);
  const double number = value->is_number() ? value->get<double>() : NAN;
  if (!(number >= low && number <= high)) wrong(name, wanted);
  return static_cast<float>(number);
}

std::vector<int32_t> Fields::token_ids(const std::string& name) {
  const kv::Json* value = find(name);
  return value == nullptr ? std::vector<int32_t>() : token_ids(name, *value);
}

std::vector<int32_t> Fields::token_ids(const std::string& name, const kv::Json& list,
                                       const std::string& wanted) const {
  if (!list.is_array()) wrong(name, wanted);
  std::vector<int32_t> ids;
  for (const kv::Json& one : list) {
    const auto id = kv::integer_in(one, 0, INT32_MAX);
    if (!id) wrong(name, wanted);
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

void Fields::refuse(const kv::Json& values_by_name) {
  for (const auto& [name, values] : values_by_name.items()) {
    const kv::Json* value = find(name);
    if (value == nullptr || values.is_null()) continue;
    if (std::find(values.begin(), values.end(), *value) != values.end()) continue;
    throw ApiError(400, fmt::format("{}{} is not supported; leave it out", where_, name),
                   where_ + name);
  }
}

std::vector<std::string> Fields::unknown() const {
  std::vector<std::string> names;
  for (const auto& [name, value] : object_->items()) {
    if (!known_.contains(name)) names.push_back(name);
  }
  return names;
}

}  // namespace serve
