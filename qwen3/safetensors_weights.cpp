
#include "common/error.h"
#include "common/json.h"
#include "common/utf8.h"
#include "qwen3/safetensors.h"

namespace kv {
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";

struct ShardIndex {
  std::map<std::string, std::vector<std::string>> tensors_of_shard;
  std::string where;
};

// {"metadata": {..}, "weight_map": {tensor: file}}. A file is a plain name: an index that came from
// elsewhere must not reach outside its folder.
ShardIndex read_index(const std::filesystem::path& path) {
  ShardIndex index;
  index.where = path.string();
  const Json json = load_json(path);
  const JsonObject map = JsonObject(json, path.string()).object("weight_map");
  for (const auto& [tensor, value] : map.value().items()) {
    const std::string& file = map.string(tensor);
    if (file.empty() || file == "." || file == ".." || file.find('\0') != file.npos ||
        file.find('/') != file.npos || file.find('\\') != file.npos) {
      user_error("{}: tensor {} is in file {}, wanted the plain name of a file in the same folder",
                 map.where(), quote(tensor), quote(file));
    }
    index.tensors_of_shard[file].push_back(tensor);
  }
  if (index.tensors_of_shard.empty()) {
    user_error("{}: names no tensor, wanted one entry for each; download it again", map.where());
  }
  return index;
}

}  // namespace

Weights Weights::open(const std::filesystem::path& model_dir) {
  Weights weights;
  weights.dir_ = model_dir;
  std::error_code error;
  if (!std::filesystem::is_directory(model_dir, error)) {
    user_error("{}: no such folder, wanted a Hugging Face model folder (config.json, ...)",
               model_dir.string());
  }
  if (std::filesystem::exists(model_dir / kSingleFile, error)) {
    weights.files_.push_back(SafetensorsFile::open(model_dir / kSingleFile));
    for (const auto& [name, tensor] : weights.files_[0].tensors()) {
      weights.index_.emplace(name, std::pair{size_t{0}, &tensor});
    }
    return weights;
  }
  if (!std::filesystem::exists(model_dir / kIndexFile, error)) {
    user_error("{}: neither {} nor {} is there, wanted one of them; download the model again",
               model_dir.string(), kSingleFile, kIndexFile);
  }
  const ShardIndex index = read_index(model_dir / kIndexFile);
  std::map<std::string, std::string> shard_of;  // every tensor, also those that the index forgets
  for (const auto& [file, names] : index.tensors_of_shard) {
    if (!std::filesystem::exists(model_dir / file, error)) {
      user_error("{}: shard {} is not in the folder, wanted {} shards; download it", index.where,
                 quote(file), index.tensors_of_shard.size());
    }
    // Moving a SafetensorsFile moves its map as a whole, so addresses of tensors stay.
    weights.files_.push_back(SafetensorsFile::open(model_dir / file));
    const auto& tensors = weights.files_.back().tensors();
    for (const auto& [name, tensor] : tensors) {
      const auto [it, is_new] = shard_of.emplace(name, file);
      if (is_new) continue;
      user_error("{}: tensor {} is in shard {} and in shard {}, wanted once; download both again",
                 index.where, quote(name), quote(it->second), quote(file));
    }
    for (const std::string& name : names) {
      const auto it = tensors.find(name);
      if (it == tensors.end()) {
        user_error(
            "{}: tensor {} should be in shard {}, which has no such tensor; download both again",
            index.where, quote(name), quote(file));
      }
      weights.index_.emplace(name, std::pair{weights.files_.size() - 1, &it->second});
    }
  }
  return weights;
}

const TensorView* Weights::find(const std::string& name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : it->second.second;
}

std::vector<std::string> Weights::names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : index_) names.push_back(name);
  return names;
}

size_t Weights::total_bytes() const {
  size_t bytes = 0;
  for (const auto& [name, place] : index_) bytes += place.second->bytes;
  return bytes;
}

std::string Weights::where(const std::string& name) const {
  const auto it = index_.find(name);
  return (it == index_.end() ? dir_ : files_[it->second.first].path()).string();
}

}  // namespace kv
