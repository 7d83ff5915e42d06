#include "viz/shell/window.h"

#include <fmt/format.h>
#include <imgui.h>
#if __has_include(<imgui_impl_glfw.h>)
#include <imgui_impl_glfw.h>
#include <imgui_impl_opengl3.h>
#else  // Debian
#include <backends/imgui_impl_glfw.h>
#include <backends/imgui_impl_opengl3.h>
#endif
#include <GLFW/glfw3.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/error.h"
#include "programs/run_main.h"
#include "viz/drawing/palette.h"
#include "viz/shell/key_queue.h"
#include "viz/shell/mouse_queue.h"

namespace viz {
namespace {

constexpr double kLongestFrame = 0.1, kRest = 0.25, kBlink = 0.05;  // seconds
constexpr float kRoomy = 1600, kTall = 1000;  // points: a larger window has larger letters
constexpr double kLively = 1;                 // after input: a tooltip may open, a button light up

std::string& last_error() {
  static std::string text;
  return text;
}

[[noreturn]] void no_window(const char* what) {
  const size_t end = last_error().find_last_not_of(' ') + 1;  // GLFW names a display without a name
  kv::user_error(
      "{} ({}): is there a display? Without one, ./course web makes the visualizer for a browser, "
      "and --headless with --screenshot FILE draws a page",
      what, end == 0 ? "no reason given" : last_error().substr(0, end));
}

/// GLFW, its window and ImGui's backends, in the order of their lives.
class Window {
 public:
  explicit Window(const WindowOptions& options) {
    glfwSetErrorCallback([](int, const char* text) { last_error() = text; });
    if (!glfwInit()) no_window("cannot open a window");
    glfwWindowHint(GLFW_CONTEXT_VERSION_MAJOR, 3);
    glfwWindowHint(GLFW_CONTEXT_VERSION_MINOR, 3);
    glfwWindowHint(GLFW_OPENGL_PROFILE, GLFW_OPENGL_CORE_PROFILE);
    scale_ = options.scale;
    if (scale_ <= 0) {
      float x = 1, y = 1;
      if (GLFWmonitor* monitor = glfwGetPrimaryMonitor())
        glfwGetMonitorContentScale(monitor, &x, &y);
      scale_ = x > 0 ? x : 1;
    }
    const auto pixels = [&](int points) {
      return static_cast<int>(static_cast<float>(points) * scale_);
    };
    window_ = glfwCreateWindow(pixels(options.width), pixels(options.height), "Page by Page",
                               nullptr, nullptr);
    if (window_ == nullptr) {
      glfwTerminate();
      no_window("cannot open a window with OpenGL 3.3");
    }
    glfwMakeContextCurrent(window_);
    glfwSwapInterval(1);
    ImGui::CreateContext();
    ImGui_ImplGlfw_InitForOpenGL(window_, true);
    ImGui_ImplOpenGL3_Init("#version 330");
    use_scale(scale_);
  }
  ~Window() {
    ImGui_ImplOpenGL3_Shutdown();
    ImGui_ImplGlfw_Shutdown();
    ImGui::DestroyContext();
    glfwDestroyWindow(window_);
    glfwTerminate();
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  /// Files that are dropped on the window are opened. Keys and clicks are taken as they go down: a
  /// press may be over before the next frame looks.
  void opens_for(Shell& shell) {
    shell_ = &shell;
    glfwSetWindowUserPointer(window_, this);
    imgui_key_ = glfwSetKeyCallback(
        window_, [](GLFWwindow* window, int key, int code, int action, int mods) {
          static const std::set<int> kEdits{GLFW_KEY_ENTER,     GLFW_KEY_KP_ENTER, GLFW_KEY_ESCAPE,
                                            GLFW_KEY_TAB,       GLFW_KEY_UP,       GLFW_KEY_DOWN,
                                            GLFW_KEY_LEFT,      GLFW_KEY_RIGHT,    GLFW_KEY_HOME,
                                            GLFW_KEY_BACKSPACE, GLFW_KEY_DELETE,   GLFW_KEY_END};
          of(window).keys_.add({.key = key,
                                .code = code,
                                .action = action,
                                .mods = mods,
                                .edits = kEdits.contains(key) || (mods & GLFW_MOD_CONTROL) != 0});
        });
    imgui_letter_ = glfwSetCharCallback(window_, [](GLFWwindow* window, unsigned letter) {
      of(window).keys_.add({.letter = letter});
    });
    glfwSetCursorPosCallback(window_, [](GLFWwindow* window, double x, double y) {
      of(window).mouse_.moves(static_cast<float>(x), static_cast<float>(y));
    });
    glfwSetMouseButtonCallback(window_, [](GLFWwindow* window, int button, int action, int) {
      of(window).mouse_.changes(button, action == GLFW_PRESS);
    });
    glfwSetDropCallback(window_, [](GLFWwindow* window, int count, const char** paths) {
      for (int i = 0; i < count; ++i) of(window).shell_->open(paths[i]);
    });
  }
  bool has_input() const { return !keys_.empty() || !mouse_.empty(); }
  bool open() const { return !glfwWindowShouldClose(window_); }
  /// Waits for input, at most this time. Returns false if none came.
  static bool wait_for_input(double seconds) {
    const double begin = glfwGetTime();
    glfwWaitEventsTimeout(seconds);
    return glfwGetTime() - begin < 0.95 * seconds;
  }
  static void poll() { glfwPollEvents(); }
  void frame(Shell& shell) {
    const ImGuiIO& io = ImGui::GetIO();
    const bool closes = io.WantTextInput && !ImGui::IsAnyItemActive();
    pass_keys(io.WantTextInput, closes || shell.opens_field());
    const float fit = std::min(io.DisplaySize.x / kRoomy, io.DisplaySize.y / kTall) / scale_;
    use_scale(scale_ * shell.zoom * std::clamp(std::floor(8 * fit) / 8, 1.0f, 2.0f));
    ImGui_ImplOpenGL3_NewFrame();
    ImGui_ImplGlfw_NewFrame();
    pass_clicks();
    ImGui::NewFrame();
    // After a rest the time since the last frame is no part of a motion.
    const double seconds = std::min(static_cast<double>(io.DeltaTime), kLongestFrame);
    shell.frame(io.DisplaySize.x, io.DisplaySize.y, drawn_at_, seconds);
    present();
    shell.work_off();
  }

 private:
  /// Shows what has been drawn in this frame.
  void present() {
    ImGui::Render();
    int width = 0, height = 0;
    glfwGetFramebufferSize(window_, &width, &height);
    glViewport(0, 0, width, height);
    const ImVec4 ground = ImGui::ColorConvertU32ToFloat4(window_theme->ground);
    glClearColor(ground.x, ground.y, ground.z, 1);
    glClear(GL_COLOR_BUFFER_BIT);
    ImGui_ImplOpenGL3_RenderDrawData(ImGui::GetDrawData());
    glfwSwapBuffers(window_);
  }

  static Window& of(GLFWwindow* window) {
    return *static_cast<Window*>(glfwGetWindowUserPointer(window));
  }

  /// Tells ImGui and the shell what has come since the last frame.
  void pass_keys(bool types, bool changes) {
    static const std::map<int, int> kKeys{{GLFW_KEY_RIGHT, ImGuiKey_RightArrow},
                                          {GLFW_KEY_LEFT, ImGuiKey_LeftArrow},
                                          {GLFW_KEY_DOWN, ImGuiKey_DownArrow},
                                          {GLFW_KEY_UP, ImGuiKey_UpArrow},
                                          {GLFW_KEY_TAB, ImGuiKey_Tab},
                                          {GLFW_KEY_ENTER, ImGuiKey_Enter},
                                          {GLFW_KEY_KP_ENTER, ImGuiKey_Enter},
                                          {GLFW_KEY_HOME, ImGuiKey_Home},
                                          {GLFW_KEY_END, ImGuiKey_End},
                                          {GLFW_KEY_ESCAPE, ImGuiKey_Escape},
                                          {GLFW_KEY_Z, ImGuiKey_Z},
                                          {GLFW_KEY_Y, ImGuiKey_Y},
                                          {GLFW_KEY_C, ImGuiKey_C},
                                          {GLFW_KEY_EQUAL, '+'},
                                          {GLFW_KEY_KP_ADD, '+'},
                                          {GLFW_KEY_MINUS, '-'},
                                          {GLFW_KEY_KP_SUBTRACT, '-'},
                                          {GLFW_KEY_0, '0'},
                                          {GLFW_KEY_KP_0, '0'}};
    for (const KeyQueue::Event& event : keys_.take(types, changes)) {
      if (event.letter != 0) {
        imgui_letter_(window_, event.letter);
        continue;
      }
      imgui_key_(window_, event.key, event.code, event.action, event.mods);
      const auto known = kKeys.find(event.key);
      if (known == kKeys.end() || event.action == GLFW_RELEASE) continue;
      shell_->press(known->second, (event.mods & GLFW_MOD_CONTROL) != 0,
                    (event.mods & GLFW_MOD_SHIFT) != 0);
    }
  }

  /// Tells ImGui of one change of a button, and where the mouse was then.
  void pass_clicks() {
    ImGuiIO& io = ImGui::GetIO();
    if (const auto change = mouse_.take()) {
      if (change->button < kButtons) down_[static_cast<size_t>(change->button)] = change->down;
      io.MousePos = {change->x, change->y};
    } else {
      for (int button = 0; button < kButtons; ++button) {  // a release may have gone elsewhere
        if (glfwGetMouseButton(window_, button) == GLFW_RELEASE) {
          down_[static_cast<size_t>(button)] = false;
        }
      }
    }
    std::ranges::copy(down_, io.MouseDown);
  }

  void use_scale(float scale) {
    if (std::exchange(drawn_at_, scale) == scale) return;
    apply_theme(scale);
    ImGui_ImplOpenGL3_DestroyFontsTexture();
    ImGui_ImplOpenGL3_CreateFontsTexture();
  }

  GLFWwindow* window_ = nullptr;
  Shell* shell_ = nullptr;
  KeyQueue keys_;
  MouseQueue mouse_;
  static constexpr int kButtons = 3;
  std::array<bool, kButtons> down_{};
  GLFWkeyfun imgui_key_ = nullptr;  // to which the keys go on
  GLFWcharfun imgui_letter_ = nullptr;
  float scale_ = 1, drawn_at_ = 0;  // the display's; with the zoom
};

/// "RECT x y name" for every control that can be seen, after what a click made has been laid out.
void print_rects(const Shell& shell) {
  for (const auto& [name, control] : shell.probe().controls) {
    if (!control.visible) continue;
    fmt::print("RECT {:.0f} {:.0f} {}\n", control.x + control.w / 2, control.y + control.h / 2,
               name);
  }
  fmt::print("FRAME\n");
  std::fflush(stdout);
}

}  // namespace

void run_window(Shell& shell, const WindowOptions& options) {
  Window window(options);
  window.opens_for(shell);
  size_t seen = 0;  // changes with the log, and with the controls that there are
  int settle = 3;
  double lively_until = 0;
  int rests_after = 0;  // frames
  for (int n = 1; window.open() && !kv::interrupted();) {
    // Where nothing moves no frame is drawn until input comes; a text cursor blinks.
    const bool types = ImGui::GetIO().WantTextInput;
    const bool rests = options.frames == 0 && settle == 0 && !shell.is_busy() &&
                       !window.has_input() && glfwGetTime() > lively_until;
    if (options.rects && rests && !types && std::exchange(rests_after, n) != n) {
      fmt::print("REST {}\n", n);
      std::fflush(stdout);
    }
    if (!rests) {
      Window::poll();
    } else if (Window::wait_for_input(types ? kBlink : kRest)) {
      lively_until = glfwGetTime() + kLively;
    } else if (!types) {
      continue;
    }
    window.frame(shell);
    ++n;
    const size_t now = 1000 * shell.session().log().size() + shell.probe().controls.size();
    if (std::exchange(seen, now) != now) settle = 3;
    if (settle > 0 && --settle == 0 && options.rects) print_rects(shell);
    if (options.frames > 0 && n > options.frames) break;
  }
}

}  // namespace viz
