#pragma once

// The pictures of the lesson texts, drawn from scenarios by the same code as the window.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "viz/drawing/scene_svg.h"
#include "viz/page.h"
#include "viz/shell/session.h"

namespace viz {

struct Picture {
  static constexpr int kWidth = 960, kHeight = 600;  // of a whole window
  std::string file;                                  // "viz_08_full.png", or .svg: the scene alone
  std::filesystem::path scenario;                    // relative to the project
  size_t steps = 0;                                  // of the scenario; 0: all
  bool plays = false;                                // an animation of these steps
  size_t from = 1;                                   // its first step; those before prepare it
  size_t still = 0;  // the step after which it is shown where nothing may move; 0: the last one
  Room room = {860, 420};  // of an SVG

  bool is_svg() const { return file.ends_with(".svg"); }
};

/// Reads viz/shell/pictures.txt. Throws UserError, with the line, for what is not such a list.
std::vector<Picture> load_pictures(const std::filesystem::path& list);

/// Plays the scenario on new pages and draws it: [kHeight, kWidth, 3] bytes. Live runs use the
/// shipped model on the CPU, so the picture is the same everywhere.
std::vector<uint8_t> draw_picture(const Picture& picture, const std::filesystem::path& project);

/// The page of a new picture, and its scenario loaded.
Session session_of(const PageContext& context, Scenario scenario);
/// Scenes of the steps that have a caption, and of what they begin with: steps picture.from to
/// `steps`. `still` becomes the number of the frame after step picture.still.
std::vector<Frame> frames_of(Session& session, const Picture& picture, size_t steps, size_t& still);
/// A new page plays the scenario, or picture.steps steps of it; its scenes as SVG: the last one, or
/// all of them one after the other.
std::string draw_svg(const PageContext& context, Scenario scenario, const Picture& picture);
std::string draw_svg(const Picture& picture, const std::filesystem::path& project);

/// Throws UserError if it cannot be written in full.
void write_text(const std::filesystem::path& file, const std::string& text);

}  // namespace viz
