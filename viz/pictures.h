#pragma once

// The pictures of the lesson texts, drawn from scenarios by the same code as the window.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace viz {

struct Picture {
  static constexpr int kWidth = 1280, kHeight = 800;
  std::string file;                // "viz_05_beam_search.png"
  std::filesystem::path scenario;  // relative to the project
  size_t steps = 0;                // of the scenario; 0: all
};

/// Reads viz/pictures.txt. Throws UserError, with the line, for what is not such a list.
std::vector<Picture> load_pictures(const std::filesystem::path& list);

/// Plays the scenario on new pages and draws it: [kHeight, kWidth, 3] bytes. Live runs use the
/// shipped model on the CPU, so the picture is the same everywhere.
std::vector<uint8_t> draw_picture(const Picture& picture, const std::filesystem::path& project);

}  // namespace viz
