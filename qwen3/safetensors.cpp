#include "qwen3/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

#include "common/error.h"
#include "common/json.h"
#include "common/mapped_file.h"
#include "common/table.h"
#include "common/utf8.h"

namespace kv {
namespace {

// The cap of the reference implementation.
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
constexpr size_t kPrefixBytes = 8;
constexpr size_t kMaxRank = 8;  // above any tensor of a model, and a message can name all extents
constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

struct DTypeBytes {
  std::string_view name;
  uint64_t bytes;
};
constexpr std::array<DTypeBytes, 16> kDTypes{{{"BOOL", 1},
                                              {"U8", 1},
                                              {"I8", 1},
                                              {"F8_E5M2", 1},
                                              {"F8_E4M3", 1},
                                              {"F8_E8M0", 1},
                                              {"I16", 2},
                                              {"U16", 2},
                                              {"F16", 2},
                                              {"BF16", 2},
                                              {"I32", 4},
                                              {"U32", 4},
                                              {"F32", 4},
                                              {"F64", 8},
                                              {"I64", 8},
                                              {"U64", 8}}};

// The header as JSON text, checked against the file's size before anything is read.
std::string_view header_of(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() < kPrefixBytes) {
    user_error("{}: {}, wanted at least 8 (the length of the header); download it again", name,
               count_of(std::ssize(bytes), "byte"));
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kPrefixBytes; ++i) {
    length |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  }
  if (length == 0 || length > kMaxHeaderBytes) {
    user_error("{}: header length {} in bytes 0 to 7, wanted 1 to {}; is it a safetensors file?",
               name, length, kMaxHeaderBytes);
  }
  if (length > bytes.size() - kPrefixBytes) {
    user_error("{}: the header ends at byte {}, the file at byte {}; truncated, download it again",
               name, length + kPrefixBytes, bytes.size());
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + kPrefixBytes;
  if (text[0] != '{') {
    user_error("{}: byte 8 is {}, wanted \"{{\"; is it a safetensors file?", name,
               quote({text, 1}));
  }
  return {text, static_cast<size_t>(length)};
}

// Everything about one tensor that can be checked without the others.
TensorView parse_tensor(const JsonObject& info, std::span<const std::byte> data) {
  TensorView tensor;
  tensor.dtype = info.string("dtype");
  const std::vector<Json>& shape = info.array("shape");
  if (shape.size() > kMaxRank) info.wrong("shape", fmt::format("at most {} extents", kMaxRank));
  for (const Json& extent : shape) {
    tensor.shape.push_back(
        json_integer(extent, info.where() + ": an extent of the shape", 0, kInt64Max));
  }
  const uint64_t wanted = tensor_bytes(tensor.dtype, tensor.shape, info.where());

  const std::vector<Json>& offsets = info.array("data_offsets");
  if (offsets.size() != 2) info.wrong("data_offsets", "an array of two offsets");
  const auto begin = static_cast<uint64_t>(
      json_integer(offsets[0], info.where() + ": the first offset", 0, kInt64Max));
  const auto end = static_cast<uint64_t>(
      json_integer(offsets[1], info.where() + ": the second offset", 0, kInt64Max));
  if (begin > end) {
    user_error("{}: data_offsets [{}, {}] run backwards; wanted begin <= end, write the file again",
               info.where(), begin, end);
  }
  if (end - begin != wanted) {
    user_error("{}: data_offsets [{}, {}] hold {}, wanted {} for {} [{}]; write the file again",
               info.where(), begin, end, count_of(static_cast<int64_t>(end - begin), "byte"),
               wanted, tensor.dtype, fmt::join(tensor.shape, ", "));
  }
  if (end > data.size()) {
    user_error("{}: ends at byte {} of the data, which has {}; truncated, download the file again",
               info.where(), end, data.size());
  }
  tensor.data = data.data() + begin;
  tensor.bytes = static_cast<size_t>(wanted);
  return tensor;
}

void check_metadata(const JsonObject& metadata) {
  for (const auto& [key, value] : metadata.value().items()) {
    if (!value.is_string()) metadata.wrong(key, "a string");
  }
}

// The tensors, in the order of their bytes, must cover the data without hole or overlap.
void check_coverage(const std::map<std::string, TensorView>& tensors,
                    std::span<const std::byte> data, const std::string& name) {
  struct Extent {
    const std::byte* begin;
    const std::byte* end;
    const std::string* name;
    auto operator<=>(const Extent&) const = default;
  };
  std::vector<Extent> extents;
  extents.reserve(tensors.size());
  for (const auto& [tensor_name, t] : tensors) {
    extents.push_back({t.data, t.data + t.bytes, &tensor_name});
  }
  std::ranges::sort(extents);
  const std::byte* covered = data.data();
  for (const Extent& e : extents) {
    if (e.begin != covered) {
      user_error(
          "{}: tensor {}: begins at byte {} of the data, wanted {} ({}); write the file again",
          name, quote(*e.name), e.begin - data.data(), covered - data.data(),
          e.begin < covered ? "it overlaps the tensor before it" : "there is a hole");
    }
    covered = e.end;
  }
  if (covered != data.data() + data.size()) {
    user_error("{}: {} after the last tensor, wanted none; write the file again", name,
               count_of(data.data() + data.size() - covered, "byte"));
  }
}

}  // namespace

uint64_t tensor_bytes(const std::string& dtype, std::span<const int64_t> shape,
                      const std::string& where) {
  const auto* type = std::ranges::find(kDTypes, std::string_view(dtype), &DTypeBytes::name);
  if (type == kDTypes.end()) {
    user_error("{}: unknown dtype {}, wanted one of BF16, F16, F32, ...; convert the file", where,
               quote(dtype));
  }
  uint64_t bytes = type->bytes;
  for (const int64_t extent : shape) {
    if (extent < 0) {
      user_error("{}: shape [{}] has a negative extent; write the file again", where,
                 fmt::join(shape, ", "));
    }
    // Also before a later extent of 0 could hide it.
    if (extent != 0 && bytes > static_cast<uint64_t>(kInt64Max / extent)) {
      user_error("{}: shape [{}] of {} is larger than 2^63 bytes; write the file again", where,
                 fmt::join(shape, ", "), dtype);
    }
    bytes *= static_cast<uint64_t>(extent);
  }
  return bytes;
}

std::map<std::string, TensorView> parse_safetensors(std::span<const std::byte> bytes,
                                                    const std::string& name) {
  const std::string_view header = header_of(bytes, name);
  const std::span<const std::byte> data = bytes.subspan(kPrefixBytes + header.size());
  const Json json = parse_json(header, name + " (header)");
  std::map<std::string, TensorView> tensors;
  for (const auto& [key, value] : JsonObject(json, name).value().items()) {
    if (key == "__metadata__") {
      check_metadata(JsonObject(value, name + ": __metadata__"));
    } else {
      const JsonObject info(value, fmt::format("{}: tensor {}", name, quote(key)));
      tensors.emplace(key, parse_tensor(info, data));
    }
  }
  check_coverage(tensors, data, name);
  return tensors;
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  SafetensorsFile file;
  file.path_ = path;
  file.mapping_ = std::make_shared<const MappedFile>(path);
  file.tensors_ = parse_safetensors(file.mapping_->bytes(), path.string());
  return file;
}

size_t SafetensorsFile::file_bytes() const { return mapping_->bytes().size(); }

}  // namespace kv
