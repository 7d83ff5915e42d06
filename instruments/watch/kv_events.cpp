#include "instruments/watch/kv_events.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>

#include "common/error.h"
#include "common/json.h"
#include "common/utf8.h"

namespace watch {
namespace {

using nlohmann::json;

constexpr std::array kStoredFields{"block_hashes", "parent_block_hash", "token_ids",
                                   "block_size",   "lora_id",           "medium",
                                   "lora_name",    "extra_keys",        "group_idx"};
constexpr std::array kRemovedFields{"block_hashes", "medium", "group_idx"};
constexpr std::array kBatchFields{"ts", "events", "data_parallel_rank"};

/// Checks that bytes are MessagePack, and that they are not nested too deep for the stack of a
/// recursive reader: a batch has five levels.
class Checked : public nlohmann::json_sax<json> {
 public:
  explicit Checked(std::string_view bytes) {
    json::sax_parse(bytes.begin(), bytes.end(), this, json::input_format_t::msgpack);
    if (depth_ > kDeepest) kv::user_error("nested deeper than {} levels", kDeepest);
    if (bad_at_ > 0) kv::user_error("byte {} of {}: no MessagePack, or cut", bad_at_, bytes.size());
  }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(json::binary_t&) override { return true; }
  bool start_object(size_t) override { return ++depth_ <= kDeepest; }
  bool key(std::string&) override { return true; }
  bool end_object() override { return --depth_ >= 0; }
  bool start_array(size_t) override { return ++depth_ <= kDeepest; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(size_t at, const std::string&, const json::exception&) override {
    bad_at_ = at;
    return false;
  }

 private:
  static constexpr int kDeepest = 16;
  int depth_ = 0;
  size_t bad_at_ = 0;
};

/// The fields of an array or a map, and errors that say which one is wrong.
class Fields {
 public:
  /// `skipped`: what is in an array before its first field.
  Fields(const json& value, std::span<const char* const> names, size_t skipped, std::string where)
      : value_(value), names_(names), skipped_(skipped), where_(std::move(where)) {}

  /// Null if the field is missing or null.
  const json* find(size_t i) const {
    const json* found = nullptr;
    if (value_.is_array()) {
      if (i + skipped_ < value_.size()) found = &value_[i + skipped_];
    } else if (const auto at = value_.find(names_[i]); at != value_.end()) {
      found = &*at;
    }
    return found == nullptr || found->is_null() ? nullptr : found;
  }
  const json& at(size_t i, const char* wanted) const {
    const json* const found = find(i);
    if (found == nullptr) wrong(i, "nothing", wanted);
    return *found;
  }
  const json& array(size_t i) const {
    const json& found = at(i, "an array");
    if (!found.is_array()) wrong(i, found.type_name(), "an array");
    return found;
  }
  int64_t integer(size_t i, const json& value, int64_t largest) const {
    if (!value.is_number()) wrong(i, value.type_name(), "an integer");
    const std::optional<int64_t> found = kv::integer_in(value, 0, largest);
    if (!found) wrong(i, value.dump(), fmt::format("an integer from 0 to {}", largest));
    return *found;
  }
  std::string text(size_t i, const char* otherwise) const {
    const json* const found = find(i);
    if (found == nullptr) return otherwise;
    if (!found->is_string()) wrong(i, found->type_name(), "a string");
    const auto& text = found->get_ref<const std::string&>();
    if (!kv::is_valid_utf8(text)) wrong(i, "other bytes", "UTF-8");
    return text;
  }
  BlockHash hash(size_t i, const json& value) const {
    if (value.is_number_integer()) return hash_of(value.get<uint64_t>());  // older: a signed one
    if (const auto whole = kv::unsigned_in(value)) return hash_of(*whole);
    if (!value.is_binary()) wrong(i, value.type_name(), "a whole number or bytes");
    const auto& bytes = value.get_binary();
    return {bytes.begin(), bytes.end()};
  }
  std::vector<BlockHash> hashes(size_t i) const {
    std::vector<BlockHash> all;
    for (const json& value : array(i)) all.push_back(hash(i, value));
    return all;
  }
  Place place(size_t medium, size_t group) const {
    const json* const index = find(group);
    return {.medium = text(medium, "GPU"),
            .group_idx = index == nullptr ? 0 : static_cast<int>(integer(group, *index, 1 << 20))};
  }
  [[noreturn]] void wrong(size_t i, std::string_view found, std::string_view wanted) const {
    kv::user_error("{}{}: found {}, wanted {}", where_, names_[i], found, wanted);
  }

 private:
  const json& value_;
  std::span<const char* const> names_;
  size_t skipped_;
  std::string where_;
};

constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
// Tokens. A picture counts those of all its blocks in an int.
constexpr int64_t kMaxBlockSize = 1 << 16;

/// Blocks stand wherever they are stored, whatever is wrong with the tokens that are told of them.
BlockStored stored_of(const Fields& fields, std::vector<std::string>& problems) {
  BlockStored event{.block_hashes = fields.hashes(0), .place = fields.place(5, 8)};
  if (const json* const parent = fields.find(1)) event.parent_block_hash = fields.hash(1, *parent);
  event.block_size = static_cast<int>(fields.integer(3, fields.at(3, "an integer"), kMaxBlockSize));
  event.lora_name = fields.text(6, "");
  try {
    for (const json& token : fields.array(2)) {
      event.token_ids.push_back(static_cast<int32_t>(fields.integer(2, token, kMaxInt)));
    }
    const size_t count = event.block_hashes.size(), num_tokens = event.token_ids.size();
    const auto size = static_cast<size_t>(event.block_size);
    if (num_tokens == count * size) return event;
    // A hybrid model's group may keep some blocks alone, and says all tokens: not which are whose.
    const bool leaves_some_out = size > 0 && num_tokens % size == 0 && num_tokens / size > count;
    if (num_tokens > 0 && !leaves_some_out) {
      fields.wrong(2, fmt::format("{} tokens", num_tokens),
                   fmt::format("{} of {}, or none", count, size));
    }
  } catch (const kv::UserError& error) {
    problems.emplace_back(error.what());
  }
  event.token_ids.clear();
  return event;
}

json json_of(const BlockHash& hash) {
  if (hash.size() == sizeof(uint64_t)) return seq_of(hash);
  return json::binary({hash.begin(), hash.end()});
}

json json_of(const std::vector<BlockHash>& hashes) {
  json all = json::array();
  for (const BlockHash& hash : hashes) all.push_back(json_of(hash));
  return all;
}

json json_of(const BlockStored& event) {
  json lora = event.lora_name.empty() ? json(nullptr) : json(event.lora_name);
  json fields{"BlockStored",
              json_of(event.block_hashes),
              event.parent_block_hash ? json_of(*event.parent_block_hash) : json(nullptr),
              event.token_ids,
              event.block_size,
              nullptr,  // lora_id, for which the name has come
              event.place.medium,
              std::move(lora)};
  json keys = json::array();
  for (const std::vector<std::string>& of_block : event.extra_keys) {
    json of_one = json::array();
    for (const std::string& key : of_block) {
      const bool is_text = kv::is_valid_utf8(key);
      of_one.push_back(is_text ? json(key) : json::binary({key.begin(), key.end()}));
    }
    keys.push_back(of_one.empty() ? json(nullptr) : std::move(of_one));
  }
  fields.push_back(keys.empty() ? json(nullptr) : std::move(keys));
  fields.push_back(event.place.group_idx);
  return fields;
}

json json_of(const BlockRemoved& event) {
  return {"BlockRemoved", json_of(event.block_hashes), event.place.medium, event.place.group_idx};
}

json json_of(const AllBlocksCleared&) { return json::array({"AllBlocksCleared"}); }

/// Empty for an event of another kind.
std::optional<Event> event_of(const json& value, size_t number,
                              std::vector<std::string>& problems) {
  const json* name = nullptr;
  if (value.is_array() && !value.empty()) name = &value[0];
  if (value.is_object() && value.contains("type")) name = &value["type"];
  if (name == nullptr || !name->is_string()) {
    kv::user_error("event {}: found {} without a name, wanted BlockStored or another", number,
                   value.type_name());
  }
  if (*name == "AllBlocksCleared") return AllBlocksCleared{};
  const auto where = fmt::format("event {}, {}: ", number, name->get_ref<const std::string&>());
  if (*name == "BlockStored") return stored_of({value, kStoredFields, 1, where}, problems);
  if (*name != "BlockRemoved") return std::nullopt;
  const Fields fields(value, kRemovedFields, 1, where);
  return BlockRemoved{.block_hashes = fields.hashes(0), .place = fields.place(1, 2)};
}

}  // namespace

std::string seq_bytes(uint64_t seq) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(seq >> shift);
  return bytes;
}

uint64_t seq_of(std::string_view bytes) {
  uint64_t seq = 0;
  for (const char byte : bytes) seq = seq << 8 | static_cast<unsigned char>(byte);
  return seq;
}

BlockHash hash_of(uint64_t number) { return seq_bytes(number); }

std::string hex(const BlockHash& hash) {
  return fmt::format("{:02x}", fmt::join(std::vector<uint8_t>(hash.begin(), hash.end()), ""));
}

std::string encode(const EventBatch& batch) {
  json events = json::array();
  for (const Event& event : batch.events) {
    events.push_back(std::visit([](const auto& one) { return json_of(one); }, event));
  }
  const json all = json::array({batch.ts, std::move(events), batch.data_parallel_rank});
  std::string payload;
  json::to_msgpack(all, payload);
  return payload;
}

EventBatch decode(std::string_view payload) {
  const Checked checked(payload);
  const json all = json::from_msgpack(payload.begin(), payload.end());
  if (!all.is_array() && !all.is_object()) {
    kv::user_error("found {}, wanted a batch of events", all.type_name());
  }
  const Fields fields(all, kBatchFields, 0, "");
  EventBatch batch;
  const json& events = fields.array(1);
  const auto attempt = [&](const auto& read) {
    try {
      read();
    } catch (const kv::UserError& error) {
      batch.problems.emplace_back(error.what());
    }
  };
  attempt([&] {
    const json& ts = fields.at(0, "seconds");
    const bool good = ts.is_number() && std::isfinite(ts.get<double>());
    if (!good) fields.wrong(0, ts.type_name(), "seconds since 1970");
    batch.ts = ts.get<double>();
  });
  for (size_t i = 0; i < events.size(); ++i) {
    attempt([&] {
      auto event = event_of(events[i], i, batch.problems);
      if (event) batch.events.push_back(std::move(*event));
      if (!event) ++batch.num_unknown;
    });
  }
  attempt([&] {
    const json* const rank = fields.find(2);
    if (rank) batch.data_parallel_rank = static_cast<int>(fields.integer(2, *rank, kMaxInt));
  });
  return batch;
}

}  // namespace watch
