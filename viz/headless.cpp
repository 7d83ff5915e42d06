#include "viz/headless.h"

#include <imgui.h>
#include <stb_image_write.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include "common/base/error.h"
#include "viz/palette.h"

namespace viz {

Headless::Headless(Shell& shell, int width, int height, float scale)
    : shell_(&shell), width_(width), height_(height), scale_(scale) {
  IMGUI_CHECKVERSION();  // a header of another library version dies here, not later
  context_ = ImGui::CreateContext();
  ImGuiIO& io = ImGui::GetIO();
  io.DisplaySize = ImVec2(static_cast<float>(width), static_cast<float>(height));
  io.DeltaTime = 1.0f / 60;
  io.BackendFlags |= ImGuiBackendFlags_RendererHasVtxOffset;  // lists of more than 65,535 vertices
#if IMGUI_VERSION_NUM < 18700
  for (int key = 0; key < ImGuiKey_COUNT; ++key) io.KeyMap[key] = key;  // no keyboard: any numbers
#endif
  apply_theme(scale);
  unsigned char* pixels = nullptr;
  int w = 0, h = 0;
  io.Fonts->GetTexDataAsRGBA32(&pixels, &w, &h);  // NewFrame wants the atlas built
  io.Fonts->SetTexID(reinterpret_cast<ImTextureID>(intptr_t{1}));
  move(-1, -1);
  frame();  // what the mouse is over is known from the frame before: two to settle
}

Headless::~Headless() { ImGui::DestroyContext(context_); }

void Headless::frame() {
  ImGui::SetCurrentContext(context_);
  ImGui::NewFrame();
  shell_->frame(static_cast<float>(width_), static_cast<float>(height_), scale_, 0);
  ImGui::Render();
}

void Headless::move(float x, float y) {
#if IMGUI_VERSION_NUM >= 18700
  ImGui::GetIO().AddMousePosEvent(x, y);
#else
  ImGui::GetIO().MousePos = ImVec2(x, y);
#endif
  frame();
}

void Headless::press(bool down) {
#if IMGUI_VERSION_NUM >= 18700
  ImGui::GetIO().AddMouseButtonEvent(0, down);
#else
  ImGui::GetIO().MouseDown[0] = down;
#endif
  frame();
}

void Headless::click(const std::string& name) {
  ImGui::SetCurrentContext(context_);
  const auto found = shell_->probe().controls.find(name);
  if (found == shell_->probe().controls.end()) {
    throw std::runtime_error("there is no control '" + name + "' in this frame");
  }
  const Probe::Control control = found->second;
  move(control.x + control.w / 2, control.y + control.h / 2);
  frame();
  if (!control.disabled_because.empty()) {
    throw std::runtime_error("'" + name + "' is disabled: " + control.disabled_because);
  }
  if (shell_->probe().hovered != name) {
    throw std::runtime_error("'" + name + "' is clipped or covered; the mouse is over '" +
                             shell_->probe().hovered + "'");
  }
  press(true);
  press(false);  // a button fires on release
  move(-1, -1);
  frame();  // lays out what the click made
}

namespace {

/// A picture under the triangles that ImGui draws, blended in order.
class Raster {
 public:
  Raster(int width, int height, const uint8_t* texture, int tw, int th)
      : width_(width), height_(height), texture_(texture), tw_(tw), th_(th) {
    pixels_.reserve(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
    for (int i = 0; i < width * height; ++i) {
      for (int q = 0; q < 3; ++q) pixels_.push_back(static_cast<uint8_t>(kGround >> (8 * q)));
    }
  }

  void triangle(const ImDrawVert* a, const ImDrawVert* b, const ImDrawVert* c, const ImVec4& clip) {
    float area = edge(a->pos, b->pos, c->pos.x, c->pos.y);
    if (area == 0) return;
    if (area < 0) std::swap(b, c), area = -area;
    const auto low = [](float x, float y, float z) { return std::floor(std::min({x, y, z})); };
    const auto high = [](float x, float y, float z) { return std::ceil(std::max({x, y, z})); };
    const int x0 = std::max(
        {static_cast<int>(low(a->pos.x, b->pos.x, c->pos.x)), static_cast<int>(clip.x), 0});
    const int x1 = std::min(
        {static_cast<int>(high(a->pos.x, b->pos.x, c->pos.x)), static_cast<int>(clip.z), width_});
    const int y0 = std::max(
        {static_cast<int>(low(a->pos.y, b->pos.y, c->pos.y)), static_cast<int>(clip.y), 0});
    const int y1 = std::min(
        {static_cast<int>(high(a->pos.y, b->pos.y, c->pos.y)), static_cast<int>(clip.w), height_});
    for (int y = y0; y < y1; ++y) {
      for (int x = x0; x < x1; ++x) {
        const float px = static_cast<float>(x) + 0.5f, py = static_cast<float>(y) + 0.5f;
        const float wa = edge(b->pos, c->pos, px, py), wb = edge(c->pos, a->pos, px, py),
                    wc = edge(a->pos, b->pos, px, py);
        // A pixel on an edge that two triangles share belongs to one of them.
        if (!inside(wa, b->pos, c->pos) || !inside(wb, c->pos, a->pos) ||
            !inside(wc, a->pos, b->pos)) {
          continue;
        }
        blend(x, y, *a, *b, *c, wa / area, wb / area, wc / area);
      }
    }
  }
  std::vector<uint8_t> take() { return std::move(pixels_); }

 private:
  static float edge(const ImVec2& a, const ImVec2& b, float x, float y) {
    return (b.x - a.x) * (y - a.y) - (b.y - a.y) * (x - a.x);
  }
  static bool inside(float w, const ImVec2& a, const ImVec2& b) {
    return w > 0 || (w == 0 && ((a.y == b.y && b.x > a.x) || b.y < a.y));
  }
  void blend(int x, int y, const ImDrawVert& a, const ImDrawVert& b, const ImDrawVert& c, float wa,
             float wb, float wc) {
    const float u = wa * a.uv.x + wb * b.uv.x + wc * c.uv.x;
    const float v = wa * a.uv.y + wb * b.uv.y + wc * c.uv.y;
    const int tx = std::clamp(static_cast<int>(u * static_cast<float>(tw_)), 0, tw_ - 1);
    const int ty = std::clamp(static_cast<int>(v * static_cast<float>(th_)), 0, th_ - 1);
    const uint8_t* texel =
        texture_ +
        (static_cast<size_t>(ty) * static_cast<size_t>(tw_) + static_cast<size_t>(tx)) * 4;
    float channel[4];
    for (int q = 0; q < 4; ++q) {
      const auto part = [&](const ImDrawVert& vertex) {
        return static_cast<float>(vertex.col >> (8 * q) & 255);
      };
      channel[q] =
          (wa * part(a) + wb * part(b) + wc * part(c)) * static_cast<float>(texel[q]) / 255;
    }
    const float alpha = channel[3] / 255;
    uint8_t* out =
        &pixels_[(static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x)) *
                 3];
    for (int q = 0; q < 3; ++q) {
      out[q] = static_cast<uint8_t>(
          std::lround(static_cast<float>(out[q]) * (1 - alpha) + channel[q] * alpha));
    }
  }

  int width_, height_;
  const uint8_t* texture_;
  int tw_, th_;
  std::vector<uint8_t> pixels_;
};

}  // namespace

std::vector<uint8_t> Headless::picture() {
  ImGui::SetCurrentContext(context_);
  unsigned char* texture = nullptr;
  int tw = 0, th = 0;
  ImGui::GetIO().Fonts->GetTexDataAsRGBA32(&texture, &tw, &th);
  Raster raster(width_, height_, texture, tw, th);
  const ImDrawData& data = *ImGui::GetDrawData();
  for (int n = 0; n < data.CmdListsCount; ++n) {
    const ImDrawList& list = *data.CmdLists[n];
    for (const ImDrawCmd& command : list.CmdBuffer) {
      for (unsigned i = 0; i + 2 < command.ElemCount; i += 3) {
        const auto vertex = [&](unsigned k) {
          const int index = static_cast<int>(command.IdxOffset + i + k);
          return &list.VtxBuffer[static_cast<int>(command.VtxOffset) + list.IdxBuffer[index]];
        };
        raster.triangle(vertex(0), vertex(1), vertex(2), command.ClipRect);
      }
    }
  }
  return raster.take();
}

void write_png(const std::filesystem::path& file, const std::vector<uint8_t>& rgb, int width,
               int height) {
  std::FILE* out = std::fopen(file.c_str(), "wb");
  if (out == nullptr) kv::user_error("{}: cannot write the picture", file.string());
  bool good = true;
  auto write = [&](void* data, int size) {
    good =
        good && std::fwrite(data, 1, static_cast<size_t>(size), out) == static_cast<size_t>(size);
  };
  stbi_write_png_compression_level = 20;  // flat colours: half the bytes for little time
  const bool encoded = stbi_write_png_to_func(
      [](void* context, void* data, int size) {
        (*static_cast<decltype(write)*>(context))(data, size);
      },
      &write, width, height, 3, rgb.data(), width * 3);
  good = std::fclose(out) == 0 && good && encoded;
  if (!good) kv::user_error("{}: the picture could not be written in full", file.string());
}

}  // namespace viz
