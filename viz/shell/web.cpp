// The visualizer in a browser: web/visualizer.js calls these functions. What changes the page
// happens in web_frame and web_open, which return nothing: a live run may leave their stack and
// come back.

#include <GLES3/gl3.h>
#include <backends/imgui_impl_opengl3.h>
#include <emscripten.h>
#include <emscripten/html5.h>
#include <fmt/format.h>
#include <imgui.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "common/error.h"
#include "viz/drawing/palette.h"
#include "viz/pages.h"
#include "viz/shell/files.h"
#include "viz/shell/key_queue.h"
#include "viz/shell/shell.h"

static_assert(sizeof(ImDrawIdx) == 4,
              "WebGL has no vertex offsets: 65,536 vertices are not enough");

// Puts a link to the scenario, after this step, into the address bar and, if the browser lends it,
// the clipboard; returns whether it does.
EM_JS(int, share_link, (const char* text, int step),
      { return Module.share(UTF8ToString(text), step); });
EM_JS(void, copy_picture, (), { Module.copyPicture(); });
EM_JS(void, theme_shown, (int light), { Module.themeShown(light); });
EM_JS(void, page_opened, (const char* lesson, const char* title, int by_hand),
      { Module.pageOpened(UTF8ToString(lesson), UTF8ToString(title), by_hand); });

namespace {

std::unique_ptr<viz::Shell> g_shell;
viz::KeyQueue g_keys;
float g_scale = 0;  // that the font was made for

viz::Outside in_browser() {
  return {.save = "Share",
          .save_tooltip = "Copy a link to what is shown here",
          .saved_to = "The link is in the address bar",
          .keep = [](const viz::Scenario& recorded) -> std::string {
            const viz::Session& session = g_shell->session();
            const bool is_told =
                session.is_on_scenario();  // the link then has the scenario's sentences
            const std::string text = is_told ? session.scenario()->text() : recorded.text();
            const size_t step = is_told ? session.steps_done() : recorded.commands.size();
            const int copied = share_link(text.c_str(), static_cast<int>(step));
            return copied != 0 ? " and on the clipboard." : ".";
          },
          .copy = [](const std::string&) -> std::string {
            copy_picture();
            return "The page was copied as a picture.";
          }};
}

void open_canvas() {
  EmscriptenWebGLContextAttributes attributes;
  emscripten_webgl_init_context_attributes(&attributes);
  attributes.majorVersion = 2;
  attributes.alpha = attributes.depth = attributes.antialias = false;
  const auto context = emscripten_webgl_create_context("#canvas", &attributes);
  if (context <= 0) kv::user_error("this browser has no WebGL 2");
  emscripten_webgl_make_context_current(context);
  ImGui::CreateContext();
  ImGuiIO& io = ImGui::GetIO();
  for (int key = 0; key < ImGuiKey_COUNT; ++key) io.KeyMap[key] = key;
  ImGui_ImplOpenGL3_Init("#version 300 es");
}

void use_scale(float scale) {
  if (scale == g_scale) return;
  g_scale = scale;
  viz::apply_theme(scale);
  ImGui_ImplOpenGL3_DestroyFontsTexture();
  ImGui_ImplOpenGL3_CreateFontsTexture();
}

/// Tells the browser that another page is shown. `by_hand`: a click opened it, so the address has
/// to follow.
void follow_page(bool by_hand) {
  static std::string shown;
  const viz::PageInfo info = g_shell->session().page().info();
  if (std::exchange(shown, info.lesson) == info.lesson) return;
  page_opened(info.lesson.c_str(), info.title.c_str(), by_hand ? 1 : 0);
}

/// Tells ImGui and the shell what has come since the last frame.
void pass_keys() {
  ImGuiIO& io = ImGui::GetIO();
  const bool closes = io.WantTextInput && !ImGui::IsAnyItemActive();
  for (const auto& event : g_keys.take(io.WantTextInput, closes || g_shell->opens_field())) {
    if (event.letter != 0) {
      io.AddInputCharacter(event.letter);
      continue;
    }
    io.KeyCtrl = (event.mods & 1) != 0;
    io.KeyShift = (event.mods & 2) != 0;
    io.KeysDown[event.key] = event.action != 0;
    if (event.action != 0) g_shell->press(event.key, io.KeyCtrl, io.KeyShift);
  }
}

/// The answer stays until the next one.
const char* answer(const nlohmann::json& json) {
  static std::string text;
  text = json.dump();
  return text.c_str();
}

}  // namespace

extern "C" {

/// Throws nothing: what went wrong is told to the page.
EMSCRIPTEN_KEEPALIVE void web_start(int motion) {
  open_canvas();
  const viz::PageContext context{.model_dir = KV_WEB_ROOT "/models/tiny"};
  g_shell = std::make_unique<viz::Shell>([context] { return viz::make_pages(context); },
                                         viz::load_shipped(KV_WEB_ROOT), in_browser());
  g_shell->motion = motion != 0;
}

EMSCRIPTEN_KEEPALIVE void web_theme(int light) { g_shell->light = light != 0; }

/// `lesson`: "05"; `scenario`: its text, which opens after its first `step` steps. Either may be
/// empty. The page tells what is wrong with them.
EMSCRIPTEN_KEEPALIVE void web_open(const char* lesson, const char* scenario, int embedded, int play,
                                   int step) {
  g_shell->embedded = embedded != 0;
  try {
    if (*lesson != '\0') g_shell->select(lesson);
    if (*scenario != '\0') g_shell->load(viz::Scenario::parse(scenario, "shared"));
    if (step > 0) g_shell->session().go_to_step(static_cast<size_t>(step));
    g_shell->session().page();  // it opens
    g_shell->session().playing = play != 0 && g_shell->session().can_step();
  } catch (const kv::UserError& error) {
    g_shell->tell(error.what());
  }
  follow_page(false);
}

EMSCRIPTEN_KEEPALIVE void web_frame(double seconds, int width, int height, float scale) {
  g_shell->work_off();  // with its sign on the screen
  use_scale(scale);
  ImGuiIO& io = ImGui::GetIO();
  io.DisplaySize = ImVec2(static_cast<float>(width), static_cast<float>(height));
  io.DeltaTime = static_cast<float>(seconds);
  pass_keys();
  ImGui_ImplOpenGL3_NewFrame();
  ImGui::NewFrame();
  g_shell->frame(io.DisplaySize.x, io.DisplaySize.y, scale, seconds);
  static int shown = -1;  // what is around the canvas has the same colours
  if (std::exchange(shown, g_shell->light) != g_shell->light) theme_shown(g_shell->light);
  ImGui::Render();
  glViewport(0, 0, width, height);
  const ImVec4 ground = ImGui::ColorConvertU32ToFloat4(viz::window_theme->ground);
  glClearColor(ground.x, ground.y, ground.z, 1);
  glClear(GL_COLOR_BUFFER_BIT);
  ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
  follow_page(true);
}

/// The next frame may be another picture without any input.
EMSCRIPTEN_KEEPALIVE int web_busy() {
  return g_shell->is_busy() || !g_keys.empty() || ImGui::GetIO().WantTextInput ? 1 : 0;
}

/// A field has the keys: a phone shows its keyboard.
EMSCRIPTEN_KEEPALIVE int web_types() { return ImGui::GetIO().WantTextInput ? 1 : 0; }

EMSCRIPTEN_KEEPALIVE void web_mouse(float x, float y, int down) {
  ImGuiIO& io = ImGui::GetIO();
  io.MousePos = ImVec2(x, y);
  io.MouseDown[0] = down != 0;
}

EMSCRIPTEN_KEEPALIVE void web_wheel(float lines) { ImGui::GetIO().MouseWheel += lines; }

EMSCRIPTEN_KEEPALIVE int web_pans(float x, float y, float down) {
  return g_shell->pans(x, y, down) ? 1 : 0;
}
EMSCRIPTEN_KEEPALIVE void web_pan(float down) { g_shell->pan(down); }

/// `name`: KeyboardEvent.key; letters are those of shortcuts. Returns whether Tab stays here: a
/// field has the keys, or there is another control.
EMSCRIPTEN_KEEPALIVE int web_key(const char* name, int down, int control, int shift) {
  static const std::map<std::string, ImGuiKey> kKeys{{"ArrowLeft", ImGuiKey_LeftArrow},
                                                     {"ArrowRight", ImGuiKey_RightArrow},
                                                     {"ArrowUp", ImGuiKey_UpArrow},
                                                     {"ArrowDown", ImGuiKey_DownArrow},
                                                     {"Home", ImGuiKey_Home},
                                                     {"End", ImGuiKey_End},
                                                     {"Delete", ImGuiKey_Delete},
                                                     {"Backspace", ImGuiKey_Backspace},
                                                     {"Enter", ImGuiKey_Enter},
                                                     {"Tab", ImGuiKey_Tab},
                                                     {"Escape", ImGuiKey_Escape},
                                                     {"a", ImGuiKey_A},
                                                     {"c", ImGuiKey_C},
                                                     {"v", ImGuiKey_V},
                                                     {"x", ImGuiKey_X},
                                                     {"y", ImGuiKey_Y},
                                                     {"z", ImGuiKey_Z}};
  const auto key = kKeys.find(name);
  if (key != kKeys.end()) {
    const int mods = down == 0 ? 0 : (control != 0 ? 1 : 0) + (shift != 0 ? 2 : 0);
    g_keys.add({.key = key->second, .action = down, .mods = mods, .edits = true});
  }
  return ImGui::GetIO().WantTextInput || g_shell->takes_tab(shift != 0) ? 1 : 0;
}

EMSCRIPTEN_KEEPALIVE void web_letter(unsigned letter) { g_keys.add({.letter = letter}); }

/// The controls that can be seen, by name: the middle and a button's height in pixels, and why one
/// is disabled.
EMSCRIPTEN_KEEPALIVE const char* web_controls() {
  nlohmann::json all = nlohmann::json::object();
  for (const auto& [name, control] : g_shell->probe().controls) {
    if (!control.visible) continue;
    all[name] = {{"x", control.x + control.w / 2},
                 {"y", control.y + control.h / 2},
                 {"height", control.is_button ? control.h : 0},
                 {"disabled", control.disabled_because}};
  }
  return answer(all);
}

EMSCRIPTEN_KEEPALIVE const char* web_state() {
  const viz::Session& session = g_shell->session();
  nlohmann::json counters = nlohmann::json::object();
  for (const viz::Counter& counter : session.page().counters()) {
    counters[counter.name] = counter.value;
  }
  nlohmann::json errors = nlohmann::json::array();
  for (const auto& line : session.log()) {
    if (line.error) errors.push_back(line.text);
  }
  return answer({{"page", session.page().info().lesson},
                 {"scenario", session.scenario() ? session.scenario()->name : ""},
                 {"sentence", session.caption()},
                 {"step", session.steps_done()},
                 {"steps", session.num_steps()},
                 {"ended", session.at_end()},
                 {"playing", session.playing},
                 {"light", g_shell->light},
                 {"working", g_shell->announces_work()},
                 {"notice", g_shell->notice()},
                 {"focused", g_shell->probe().focused},
                 {"counters", counters},
                 {"errors", errors}});
}

/// The scenarios that ship, by name, with the page of each.
EMSCRIPTEN_KEEPALIVE const char* web_scenarios() {
  nlohmann::json all = nlohmann::json::array();
  for (const viz::Scenario& scenario : viz::load_shipped(KV_WEB_ROOT)) {
    all.push_back({{"name", scenario.name}, {"page", scenario.page}, {"text", scenario.text()}});
  }
  return answer(all);
}

}  // extern "C"
