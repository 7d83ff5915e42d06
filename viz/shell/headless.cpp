#include "viz/shell/headless.h"

#include <fmt/format.h>
#include <imgui.h>
#include <imgui_internal.h>
#include <stb_image_write.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "common/error.h"
#include "viz/drawing/raster.h"

namespace viz {

Headless::Headless(Shell& shell, int width, int height, float scale)
    : shell_(&shell), width_(width), height_(height), scale_(scale) {
  IMGUI_CHECKVERSION();  // a header of another library version dies here, not later
  context_ = ImGui::CreateContext();
  ImGui::SetCurrentContext(context_);  // there may be others
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

void Headless::frame(double seconds) {
  ImGui::SetCurrentContext(context_);
  ImGui::NewFrame();
  shell_->frame(static_cast<float>(width_), static_cast<float>(height_), scale_, seconds);
  ImGui::Render();
  if (works_off) shell_->work_off();
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

void Headless::press_key(int key, bool ctrl) {
  ImGui::SetCurrentContext(context_);
  ImGuiIO& io = ImGui::GetIO();
  shell_->press(key, ctrl, false);
  for (const bool down : {true, false}) {
#if IMGUI_VERSION_NUM < 18700
    io.KeyCtrl = ctrl && down;
    io.KeysDown[key] = down;
#else
    if (ctrl) io.AddKeyEvent(ImGuiMod_Ctrl, down);
    io.AddKeyEvent(static_cast<ImGuiKey>(key), down);
#endif
    frame();
  }
}

void Headless::type(char c) {
  ImGui::SetCurrentContext(context_);
  ImGui::GetIO().AddInputCharacter(static_cast<unsigned char>(c));
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

std::vector<std::string> Headless::crowded() {
  ImGui::SetCurrentContext(context_);
  std::vector<std::string> all;
  for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows) {
    const float by = window->ScrollMax.y;
    if (!window->Active || by <= 1) continue;  // a pixel may be a rounding
    all.push_back(fmt::format("{} scrolls by {:.0f}", window->Name, by));
  }
  for (const auto& [name, control] : shell_->probe().controls) {
    if (control.cut) all.push_back(name + " is cut");
  }
  const ImDrawData& data = *ImGui::GetDrawData();
  for (const ImFont* font : ImGui::GetIO().Fonts->Fonts) {
    const ImFontGlyph* const instead = font->FallbackGlyph;
    if (instead == nullptr || font->FallbackChar == '?') continue;  // that may be meant
    for (int n = 0; n < data.CmdListsCount; ++n) {
      const auto& vertices = data.CmdLists[n]->VtxBuffer;
      const auto missing = std::count_if(vertices.begin(), vertices.end(), [&](const auto& vertex) {
        return vertex.uv.x == instead->U0 && vertex.uv.y == instead->V0;
      });
      if (missing == 0) continue;
      all.push_back(fmt::format("a font of {:.0f} pixels lacks {} characters of a text",
                                font->FontSize, missing));
    }
  }
  return all;
}

std::vector<std::string> Headless::outside() const {
  ImGui::SetCurrentContext(context_);
  const ImRect all(0, 0, static_cast<float>(width_), static_cast<float>(height_));
  std::vector<std::string> names;
  for (const ImGuiWindow* window : ImGui::GetCurrentContext()->Windows) {
    const bool is_shown = window->Active && !window->Hidden && window->ParentWindow == nullptr;
    if (is_shown && !all.Contains(window->Rect())) names.emplace_back(window->Name);
  }
  return names;
}

std::vector<uint8_t> Headless::picture() {
  ImGui::SetCurrentContext(context_);
  unsigned char* alpha = nullptr;
  int w = 0, h = 0;
  ImGui::GetIO().Fonts->GetTexDataAsAlpha8(&alpha, &w, &h);
  Raster raster(width_, height_, {.alpha = alpha, .width = w, .height = h});
  const ImDrawData& data = *ImGui::GetDrawData();
  for (int n = 0; n < data.CmdListsCount; ++n) raster.draw(*data.CmdLists[n]);
  return raster.bytes();
}

void write_png(const std::filesystem::path& file, const std::vector<uint8_t>& rgb, int width,
               int height) {
  std::FILE* out = std::fopen(file.c_str(), "wb");
  const auto refuse = [&file] {
    kv::user_error(
        "{}: cannot write the picture: {}; name a file in a folder that you can write to",
        file.string(), std::strerror(errno));
  };
  if (out == nullptr) refuse();
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
  if (!good) refuse();
}

}  // namespace viz
