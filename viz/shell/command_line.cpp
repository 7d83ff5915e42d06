#include "viz/shell/command_line.h"

#include <imgui.h>

#include <algorithm>
#include <functional>
#include <set>
#include <utility>

#include "viz/drawing/palette.h"
#include "viz/shell/imgui_ui.h"

namespace viz {
namespace {

std::string verb_of(const std::string& line) { return line.substr(0, line.find(' ')); }

}  // namespace

Help matching(const Help& help, const std::string& typed) {
  const bool has_verb = typed.find(' ') != std::string::npos;
  Help found;
  for (const auto& entry : help) {
    const std::string verb = verb_of(entry.first);
    if (has_verb ? verb == verb_of(typed) : verb.starts_with(typed)) found.push_back(entry);
  }
  return found;
}

std::string completed(const Help& help, const std::string& typed) {
  const Help found = matching(help, typed);
  if (found.empty() || typed.find(' ') != std::string::npos) return typed;
  std::string all = verb_of(found[0].first);
  for (const auto& [usage, words] : found) {
    const std::string verb = verb_of(usage);
    all.erase(std::mismatch(all.begin(), all.end(), verb.begin(), verb.end()).first, all.end());
  }
  return all == verb_of(found.front().first) && all == verb_of(found.back().first) ? all + " "
                                                                                   : all;
}

std::string CommandLine::field(const Help& help, float width) {
  const auto answer = [&](ImGuiInputTextCallbackData* data) {
    if (data->EventFlag == ImGuiInputTextFlags_CallbackEdit) {
      if (data->Buf[0] == ':') data->DeleteChars(0, 1);  // the key that opens the line, once more
      return;
    }
    std::string text(data->Buf, static_cast<size_t>(data->BufTextLen));
    if (data->EventFlag == ImGuiInputTextFlags_CallbackCompletion) {
      text = completed(help, text);
    } else {
      const bool up = data->EventKey == ImGuiKey_UpArrow;
      shown_ = up ? shown_ - (shown_ > 0) : std::min(shown_ + 1, before_.size());
      text = shown_ < before_.size() ? before_[shown_] : "";
    }
    data->DeleteChars(0, data->BufTextLen);
    data->InsertChars(0, text.c_str());
  };
  std::function<void(ImGuiInputTextCallbackData*)> call = answer;
  if (std::exchange(fresh_, false)) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(width);
  const bool entered = ImGui::InputTextWithHint(
      "##command", "a command: Tab completes, ? lists all, Esc closes", typed_.data(),
      typed_.size(),
      ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_CallbackCompletion |
          ImGuiInputTextFlags_CallbackHistory | ImGuiInputTextFlags_CallbackEdit,
      [](ImGuiInputTextCallbackData* data) {
        (*static_cast<std::function<void(ImGuiInputTextCallbackData*)>*>(data->UserData))(data);
        return 0;
      },
      &call);
  listens_ = ImGui::IsItemActive() && !ImGui::IsItemActivated() && !entered;
  if (!entered) {
    if (ImGui::IsItemDeactivated()) close();
    return {};
  }
  fresh_ = true;  // for the next one
  return std::exchange(typed_, {}).data();
}

std::string CommandLine::draw(ImGuiUi& ui, const Help& help) {
  const ImVec2 corner = ImGui::GetCursorScreenPos();
  const float wide = ImGui::GetContentRegionAvail().x, width = 0.4f * wide;
  ui.region("command", corner.x, corner.y, width, ImGui::GetFrameHeight());
  std::string line = field(help, width);
  if (!line.empty()) before_.push_back(line), shown_ = before_.size();
  ImGui::SameLine();
  ImGui::AlignTextToFramePadding();
  const Help found = matching(help, typed_.data());
  std::string words = typed_[0] == '?' ? "lists the commands of this page"
                      : found.empty()  ? "no command of this page begins so"
                                       : "";
  if (found.size() == 1) {
    words = found[0].first + ": " + found[0].second;
  } else {
    std::set<std::string> verbs;  // some have rows with a second word: "live", "live beams"
    for (const auto& [usage, why] : found) {
      if (verbs.insert(verb_of(usage)).second) words += verb_of(usage) + "  ";
    }
  }
  ImGui::PushStyleColor(ImGuiCol_Text, window_theme->dim);
  ImGui::TextUnformatted(words.c_str());
  ImGui::PopStyleColor();
  return line;
}

}  // namespace viz
