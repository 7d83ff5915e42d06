#pragma once

// The model that ships, with sliding windows in some of its layers: a folder with its files and
// another config.json. It was not trained so, but its bits must be equal in all lessons.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace kvtest {

/// `window` in every layer but each third one, as long as this lives.
class WindowedModel {
 public:
  explicit WindowedModel(int window) {
    const std::filesystem::path shipped = KV_SOURCE_DIR "/models/tiny";
    for (const auto& entry : std::filesystem::directory_iterator(shipped)) {
      if (!entry.is_regular_file() || entry.path().filename() == "config.json") continue;
      std::filesystem::create_symlink(entry.path(), dir_.path() / entry.path().filename());
    }
    auto config = nlohmann::json::parse(std::ifstream(shipped / "config.json"));
    std::vector<std::string> types;
    for (int layer = 0; layer < config.at("num_hidden_layers"); ++layer) {
      types.emplace_back(layer % 3 == 2 ? "full_attention" : "sliding_attention");
    }
    config["layer_types"] = types;
    config["use_sliding_window"] = true;
    config["sliding_window"] = window;
    std::ofstream(dir_.path() / "config.json") << config;
  }
  const std::filesystem::path& folder() const { return dir_.path(); }

 private:
  TempDir dir_;
};

}  // namespace kvtest
