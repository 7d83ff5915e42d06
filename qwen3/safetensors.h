#pragma once

// Reader and writer of the safetensors format (https://github.com/huggingface/safetensors).
//
//   8 bytes   N, the length of the header, little endian
//   N bytes   JSON: {"name": {"dtype": "BF16", "shape": [..], "data_offsets": [begin, end]}, ...}
//   the rest  the tensors' bytes, without hole or overlap
//
// The file is memory-mapped: tensors point into the mapping and cost no copy. Everything is checked
// before anything is allocated for it, and a bad file gives one UserError that names the file, the
// tensor or byte, what was found, what was wanted, and what to do.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/dtype.h"

namespace kv {

/// A tensor inside a mapped file. `data` lives as long as the file object. It need not be aligned
/// for its dtype: the format promises no more than byte order (little endian).
struct TensorView {
  std::string dtype;           // as in the file: "BF16", "F16", "F32", "I64", ...
  std::vector<int64_t> shape;  // row-major
  const std::byte* data = nullptr;
  size_t bytes = 0;
};

/// One mapped .safetensors file. Move-only.
class SafetensorsFile {
 public:
  /// Maps and validates the file. Throws UserError.
  static SafetensorsFile open(const std::filesystem::path& path);
  SafetensorsFile(SafetensorsFile&&) noexcept = default;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept = default;
  SafetensorsFile(const SafetensorsFile&) = delete;
  SafetensorsFile& operator=(const SafetensorsFile&) = delete;

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const std::filesystem::path& path() const { return path_; }
  size_t file_bytes() const;

 private:
  SafetensorsFile() = default;
  std::filesystem::path path_;
  std::shared_ptr<const class MappedFile> mapping_;
  std::map<std::string, TensorView> tensors_;
};

/// Validates `bytes` as a whole safetensors file (what open() does after mapping; also fuzzed).
/// `name` is used in messages.
std::map<std::string, TensorView> parse_safetensors(std::span<const std::byte> bytes,
                                                    const std::string& name);

/// All weights of a model folder: `model.safetensors`, or the shards that
/// `model.safetensors.index.json` names. Move-only: views point into the files it holds.
class Weights {
 public:
  /// If both exist, the single file is used, as in transformers. For shards, the index decides
  /// which tensors exist. Throws UserError.
  static Weights open(const std::filesystem::path& model_dir);
  Weights(Weights&&) noexcept = default;
  Weights& operator=(Weights&&) noexcept = default;
  Weights(const Weights&) = delete;
  Weights& operator=(const Weights&) = delete;

  /// Null if there is no such tensor. The view lives as long as this object.
  const TensorView* find(const std::string& name) const;
  std::vector<std::string> names() const;
  size_t total_bytes() const;
  /// For messages: the file that holds this tensor, or the folder if there is none.
  std::string where(const std::string& name) const;

 private:
  Weights() = default;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::pair<size_t, const TensorView*>> index_;
  std::filesystem::path dir_;
};

/// Bytes that a tensor of this dtype ("BF16", "F32", "I64", ...) and shape takes. Throws UserError,
/// starting with `where`, for an unknown dtype, a negative extent, or a size beyond 2^63.
uint64_t tensor_bytes(const std::string& dtype, std::span<const int64_t> shape,
                      const std::string& where);

/// A tensor's entry in the header.
struct TensorSpec {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
};

/// Writes a file piece by piece, for tensors that are larger than memory. The bytes go to a
/// temporary file beside `path`; finish() renames it. A failure, or a writer that is dropped,
/// leaves nothing.
class SafetensorsWriter {
 public:
  /// Writes the header. Throws UserError (no such folder, a name twice, unknown dtype, ...).
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// The next bytes of the data: the tensors' bytes in the order of the constructor's list, in
  /// pieces of any size. Throws UserError (disk full), std::logic_error for more bytes than were
  /// announced.
  void write(const void* data, size_t bytes);
  /// Throws UserError if the file cannot be completed, std::logic_error if bytes are missing.
  void finish();

 private:
  [[noreturn]] void fail(const char* doing) const;
  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int fd_ = -1;
  uint64_t bytes_left_ = 0;
};

/// A tensor to be written: `data` must stay alive during the call.
struct TensorToWrite {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  const void* data = nullptr;
  size_t bytes = 0;
};

/// Writes all tensors with a SafetensorsWriter. Throws UserError (disk full, no such folder, bytes
/// that do not match the shape, ...), and then `path` is as it was before.
void write_safetensors(const std::filesystem::path& path,
                       const std::vector<TensorToWrite>& tensors);

}  // namespace kv
