#include "viz/shell/imgui_ui.h"

#include <fmt/format.h>
#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <utility>

#include "viz/drawing/palette.h"

namespace viz {
namespace {

constexpr float kFontPoints = 15, kSmallPoints = 14;
constexpr double kTooltipAfter = 0.6;  // seconds that the mouse rests on a control

ImVec4 colour(Colour c) { return ImGui::ColorConvertU32ToFloat4(c); }

float width_of(std::string_view text) {
  return ImGui::CalcTextSize(text.data(), text.data() + text.size()).x;
}

/// Marks the letter in the label of the last button, if it is there.
void underline_label(std::string_view label, char letter) {
  const auto same = [&](char c) { return letter != 0 && std::toupper(c) == letter; };
  const auto at = static_cast<size_t>(std::ranges::find_if(label, same) - label.begin());
  if (at == label.size()) return;
  const ImVec2 a = ImGui::GetItemRectMin(), b = ImGui::GetItemRectMax();
  const float x = (a.x + b.x - width_of(label)) / 2 + width_of(label.substr(0, at));
  const float y = std::round((a.y + b.y + ImGui::GetFontSize()) / 2);
  ImGui::GetWindowDrawList()->AddLine(ImVec2(x, y), ImVec2(x + width_of(label.substr(at, 1)), y),
                                      ImGui::GetColorU32(ImGuiCol_Text));
}

void show_tooltip(std::string_view text) {
  ImGui::BeginTooltip();
  ImGui::PushTextWrapPos(ImGui::GetFontSize() * 26);
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
  ImGui::PopTextWrapPos();
  ImGui::EndTooltip();
}

/// A label and what makes it unique.
std::string id_of(std::string_view label, std::string_view name) {
  return std::string(label) + "##" + std::string(name);
}

}  // namespace

void ImGuiUi::begin_frame(float scale, float least) {
  scale_ = scale;
  least_ = least;
  const ImVec2 around = padding(9, 5, least_);
  ImGui::GetStyle().FramePadding = ImVec2(std::floor(around.x), std::floor(around.y));
  if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) probe_.focused.clear(), refused_.clear();
  stops_.clear();
  probe_.controls.clear();
  probe_.hovered.clear();
  same_line_ = false;
}

/// Frame padding around a text of the current font, in pixels. It is at least x and y points, and
/// makes a control at least `least` points high.
ImVec2 ImGuiUi::padding(float x, float y, float least) const {
  return {x * scale_, std::max(y * scale_, std::ceil((least * scale_ - ImGui::GetFontSize()) / 2))};
}

std::vector<std::string> ImGuiUi::take_commands() {
  entered_.clear();
  return std::exchange(commands_, {});
}

/// The place in stops_ that Tab leads to; stops_.size() is out of the window.
size_t ImGuiUi::stop(bool backward) const {
  const auto here = std::ranges::find(stops_, probe_.focused);
  const auto at = static_cast<size_t>(here - stops_.begin());
  if (here == stops_.end()) return backward ? at : 0;
  return !backward ? at + 1 : at > 0 ? at - 1 : stops_.size();
}

void ImGuiUi::move_focus(bool backward) {
  probe_.focused = has_stop(backward) ? stops_[stop(backward)] : "";
}

void ImGuiUi::run(std::string command) { commands_.push_back(std::move(command)); }

/// What the mouse is over, and where tests click.
void ImGuiUi::note(std::string_view name, Probe::Control control, bool hovered) {
  const ImVec2 centre(control.x + control.w / 2, control.y + control.h / 2);
  const ImRect& clip = ImGui::GetCurrentWindow()->ClipRect;
  control.visible = clip.Contains(centre);
  control.cut = control.x + control.w > clip.Max.x + 1;
  probe_.controls[std::string(name)] = std::move(control);
  if (hovered) probe_.hovered = name;
}

void ImGuiUi::note_item(std::string_view name, std::string tooltip, bool is_button,
                        std::string_view disabled_because) {
  const ImVec2 min = ImGui::GetItemRectMin(), size = ImGui::GetItemRectSize();
  const bool hovered = ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled);
  if (hovered && rests_on_ != name) rests_on_ = name, rests_since_ = ImGui::GetTime();
  note(name,
       {.x = min.x,
        .y = min.y,
        .w = size.x,
        .h = size.y,
        .is_button = is_button,
        .disabled_because = std::string(disabled_because)},
       hovered);
  const bool focused = name == probe_.focused;
  if (focused || (disabled_because.empty() && probe_.controls[std::string(name)].visible)) {
    stops_.emplace_back(name);
  }
  if (focused) {
    ImGui::GetWindowDrawList()->AddRect(min, ImGui::GetItemRectMax(), window_theme->text,
                                        ImGui::GetStyle().FrameRounding, 0, 2.5f * scale_);
  }
  const bool disabled = !disabled_because.empty();
  if (disabled) tooltip += fmt::format("\n\nNot now: {}.", disabled_because);
  if (disabled && hovered && ImGui::IsMouseClicked(ImGuiMouseButton_Left)) refused_ = name;
  const bool rests = ImGui::GetTime() - rests_since_ >= kTooltipAfter && !was_clicked();
  if (!hovered || (!rests && refused_ != name)) return;
  // Beside what comes next: to the left of the side, above the player, below the tabs. Towards the
  // middle, so that it stays within the window.
  const ImVec2 all = ImGui::GetIO().DisplaySize;
  const bool right = min.x > 0.6f * all.x, above = min.y > 0.9f * all.y;
  const bool beside = right && !above && min.y > 0.1f * all.y;
  const float gap = 6 * scale_;
  const ImVec2 at(beside  ? min.x - gap
                  : right ? min.x + size.x
                          : min.x,
                  beside  ? min.y
                  : above ? min.y - gap
                          : min.y + size.y + gap);
  ImGui::SetNextWindowPos(at, ImGuiCond_Always, ImVec2(right ? 1.0f : 0.0f, above ? 1.0f : 0.0f));
  show_tooltip(tooltip);
}

/// Beside the last item if same_line() asked for it and there is room; else on a line of its own.
void ImGuiUi::place(float width) {
  if (!std::exchange(same_line_, false)) return;
  ImGui::SameLine();
  if (ImGui::GetContentRegionAvail().x < width) ImGui::NewLine();
}

bool ImGuiUi::shell_button(std::string_view name, std::string_view label, std::string_view tooltip,
                           std::string_view disabled_because, float width) {
  place(width_of(label) + 2 * ImGui::GetStyle().FramePadding.x);
  const bool lit = std::exchange(lit_, false), filled = std::exchange(filled_, false);
  if (lit) ImGui::PushStyleColor(ImGuiCol_Button, window_theme->chosen);
  if (filled) {
    for (const ImGuiCol part : {ImGuiCol_Button, ImGuiCol_ButtonHovered, ImGuiCol_ButtonActive}) {
      ImGui::PushStyleColor(part, window_theme->accent);
    }
    ImGui::PushStyleColor(ImGuiCol_Text, window_theme->ground);
  }
  if (lit) ImGui::PushStyleVar(ImGuiStyleVar_DisabledAlpha, 1.0f);
  ImGui::BeginDisabled(!disabled_because.empty());
  const bool clicked = ImGui::Button(id_of(label, name).c_str(), ImVec2(width, 0)) ||
                       (name == entered_ && disabled_because.empty());
  underline_label(label, std::exchange(underlined_, 0));
  ImGui::EndDisabled();
  if (filled) ImGui::PopStyleColor(4);
  if (lit) ImGui::PopStyleVar(), ImGui::PopStyleColor();
  note_item(name, std::string(tooltip), true, disabled_because);
  return clicked;
}

bool ImGuiUi::button_over(std::string_view name, std::string_view tooltip, float x, float y,
                          float w, float h) {
  ImGui::SetCursorScreenPos(ImVec2(x, y));
  const bool clicked = ImGui::InvisibleButton(id_of({}, name).c_str(), ImVec2(w, h));
  if (ImGui::IsItemHovered()) {
    ImGui::GetWindowDrawList()->AddRect(ImVec2(x, y), ImVec2(x + w, y + h), window_theme->accent,
                                        6 * scale_, 0, 2 * scale_);
  }
  const bool entered = name == entered_;
  note_item(name, std::string(tooltip), true, {});
  return clicked || entered;
}

void ImGuiUi::divider() {
  same_line_ = false;
  ImGui::Separator();
}

void ImGuiUi::begin_large(float height) {
  const float around = (height * scale_ - ImGui::GetFontSize()) / 2;
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, ImVec2(14 * scale_, std::floor(around)));
}

void ImGuiUi::end_large() { ImGui::PopStyleVar(); }

void ImGuiUi::begin_small(float least) {
  const ImVector<ImFont*>& fonts = ImGui::GetIO().Fonts->Fonts;
  ImGui::PushFont(fonts[fonts.Size - 1]);
  ImGui::PushStyleVar(ImGuiStyleVar_FramePadding, padding(7, 3, std::max(least, least_)));
  ImGui::PushStyleVar(ImGuiStyleVar_ItemSpacing, ImVec2(6 * scale_, 5 * scale_));
}

void ImGuiUi::end_small() {
  ImGui::PopStyleVar(2);
  ImGui::PopFont();
}

bool ImGuiUi::button(std::string_view name, std::string_view label, std::string command,
                     std::string_view tooltip, std::string_view disabled_because) {
  const bool clicked = shell_button(name, label, tooltip, disabled_because);
  if (clicked) run(std::move(command));
  return clicked;
}

/// Room for a field with its name after it, or above it where the column is narrow. Returns what
/// is after the field.
std::string ImGuiUi::begin_field(std::string_view name, std::string_view text, float width,
                                 float least) {
  const float beside = ImGui::GetStyle().ItemInnerSpacing.x + width_of(text);
  const float room = ImGui::GetContentRegionAvail().x;
  if (least + beside > room) {
    same_line_ = false;
    ImGui::TextWrapped("%.*s", static_cast<int>(text.size()), text.data());
    ImGui::SetNextItemWidth(std::min(width, room));
    return id_of({}, name);
  }
  place(width + beside);
  ImGui::SetNextItemWidth(std::min(width, room - beside));
  return id_of(text, name);
}

bool ImGuiUi::number(std::string_view name, std::string_view label, int* value, int min, int max,
                     std::string_view tooltip) {
  const int before = *value;
  const float size = ImGui::GetFontSize();
  const std::string id = begin_field(name, label, 8 * size, 7 * size);
  if (name == entered_) ImGui::SetKeyboardFocusHere();
  ImGui::InputInt(id.c_str(), value);
  *value = std::clamp(*value, min, max);
  note_item(name, std::string(tooltip), false, {});
  return *value != before;
}

bool ImGuiUi::text(std::string_view name, std::string_view label, std::string* value,
                   std::string_view tooltip) {
  same_line_ = false;
  const auto resize = [](ImGuiInputTextCallbackData* data) {
    if (data->EventFlag == ImGuiInputTextFlags_CallbackResize) {
      auto* string = static_cast<std::string*>(data->UserData);
      string->resize(static_cast<size_t>(data->BufTextLen));
      data->Buf = string->data();
    }
    return 0;
  };
  const float size = ImGui::GetFontSize();
  const std::string id = begin_field(name, label, 34 * size, 20 * size);
  if (name == entered_) ImGui::SetKeyboardFocusHere();
  const bool changed = ImGui::InputText(id.c_str(), value->data(), value->capacity() + 1,
                                        ImGuiInputTextFlags_CallbackResize, resize, value);
  note_item(name, std::string(tooltip), false, {});
  return changed;
}

void ImGuiUi::same_line() { same_line_ = true; }

void ImGuiUi::heading(std::string_view text) {
  same_line_ = false;
  ImGui::Dummy(ImVec2(0, 4 * scale_));
  ImGui::PushStyleColor(ImGuiCol_Text, colour(window_theme->accent));
  label(text);
  ImGui::PopStyleColor();
}

void ImGuiUi::label(std::string_view text) {
  place(width_of(text));
  ImGui::AlignTextToFramePadding();
  ImGui::TextUnformatted(text.data(), text.data() + text.size());
}

void ImGuiUi::hint(std::string_view text) {
  same_line_ = false;
  ImGui::PushStyleColor(ImGuiCol_Text, colour(window_theme->dim));
  ImGui::TextWrapped("%.*s", static_cast<int>(text.size()), text.data());
  ImGui::PopStyleColor();
}

bool ImGuiUi::region(std::string_view name, float x, float y, float w, float h) {
  const bool hovered =
      ImGui::IsWindowHovered() && ImGui::IsMouseHoveringRect(ImVec2(x, y), ImVec2(x + w, y + h));
  note(name, {.x = x, .y = y, .w = w, .h = h}, hovered);
  return hovered;
}

void ImGuiUi::tooltip(std::string_view text) {
  if (!was_clicked()) show_tooltip(text);
}

/// The mouse rests where it was pressed last: what lies there now was not asked for.
bool ImGuiUi::was_clicked() const {
  const ImVec2 pressed = ImGui::GetIO().MouseClickedPos[0], now = ImGui::GetIO().MousePos;
  const float near = 16 * scale_;
  return std::abs(pressed.x - now.x) < near && std::abs(pressed.y - now.y) < near;
}

bool ImGuiUi::mouse_clicked() const {
  return ImGui::IsWindowHovered() && ImGui::IsMouseClicked(ImGuiMouseButton_Left);
}

void apply_theme(float scale) {
  ImGuiIO& io = ImGui::GetIO();
  io.IniFilename = nullptr;
  io.Fonts->Clear();
  ImGui::GetStyle() = ImGuiStyle();
  const char* font = KV_VIZ_FONT;
  if (*font != '\0' && std::filesystem::exists(font)) {
    static const ImWchar kRanges[] = {0x20,   0x17F,  0x2010, 0x2044, 0x2190, 0x2193,
                                      0x221A, 0x221E, 0x2264, 0x2265, 0x25B6, 0x25B6,
                                      0x2713, 0x2717, 0xFFFD, 0xFFFD, 0};
    io.Fonts->AddFontFromFileTTF(font, kFontPoints * scale, nullptr, kRanges);
    io.Fonts->AddFontFromFileTTF(font, 1.5f * kFontPoints * scale, nullptr, kRanges);
    // Of big numbers and titles: few characters, as each is large.
    static const ImWchar kBigRanges[] = {0x20,   0x7E,   0xB7,   0xB7,   0xD7,   0xD7,   0x2026,
                                         0x2026, 0x2192, 0x2192, 0x221A, 0x221A, 0x25B6, 0x25B6,
                                         0x2713, 0x2713, 0x2717, 0x2717, 0xFFFD, 0xFFFD, 0};
    ImFontConfig big;
    big.OversampleH = 1;
    io.Fonts->AddFontFromFileTTF(font, 4 * kFontPoints * scale, &big, kBigRanges);
    // Last: begin_small() takes it.
    io.Fonts->AddFontFromFileTTF(font, kSmallPoints * scale, nullptr, kRanges);
  } else {
    ImFontConfig config;
    config.SizePixels = kFontPoints * scale;
    io.Fonts->AddFontDefault(&config);
  }

  ImGuiStyle& style = ImGui::GetStyle();
  style.WindowRounding = 0;
  style.FrameRounding = style.GrabRounding = style.PopupRounding = 5;
  style.WindowPadding = ImVec2(18, 14);
  style.FramePadding = ImVec2(9, 5);
  style.ItemSpacing = ImVec2(8, 7);
  style.CellPadding = ImVec2(8, 2);
  style.ScrollbarSize = 12;
  style.WindowBorderSize = style.ChildBorderSize = 0;
  style.DisabledAlpha = 0.38f;
  style.ScaleAllSizes(scale);
}

void use_colours(const Theme& theme) {
  window_theme = &theme;
  &theme == &kDark ? ImGui::StyleColorsDark() : ImGui::StyleColorsLight();
  const std::pair<ImGuiCol, Colour> colours[] = {{ImGuiCol_WindowBg, theme.ground},
                                                 {ImGuiCol_ChildBg, theme.ground},
                                                 {ImGuiCol_PopupBg, theme.popup},
                                                 {ImGuiCol_Text, theme.text},
                                                 {ImGuiCol_TextDisabled, theme.dim},
                                                 {ImGuiCol_FrameBg, theme.field},
                                                 {ImGuiCol_FrameBgHovered, theme.field_over},
                                                 {ImGuiCol_FrameBgActive, theme.line},
                                                 {ImGuiCol_Button, theme.button},
                                                 {ImGuiCol_ButtonHovered, theme.button_over},
                                                 {ImGuiCol_ButtonActive, theme.pressed},
                                                 {ImGuiCol_Separator, theme.line},
                                                 {ImGuiCol_SliderGrab, theme.pressed},
                                                 {ImGuiCol_TitleBg, theme.panel},
                                                 {ImGuiCol_TitleBgActive, theme.chosen}};
  for (const auto& [index, value] : colours) ImGui::GetStyle().Colors[index] = colour(value);
}

}  // namespace viz
