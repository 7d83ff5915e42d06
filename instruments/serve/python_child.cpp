#include "instruments/serve/python_child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <utility>
#include <vector>

extern char** environ;

namespace serve {
namespace {

constexpr size_t kMaxAnswer = size_t{1} << 30;
constexpr const char* kNoModule = "\"field\": \"jinja2\"";

}  // namespace

PythonChild::PythonChild(std::string script, std::string setup, std::chrono::milliseconds time)
    : script_(std::move(script)), setup_(std::move(setup)), time_(time) {
  std::vector<const char*> interpreters{"python3", "/usr/bin/python3"};
  if (const char* named = std::getenv("KV_PYTHON"); named && *named) interpreters = {named};
  for (const char* interpreter : interpreters) {
    if (start(interpreter) && first_answer_.find(kNoModule) == std::string::npos) return;
    end();
    if (too_late_) return;
  }
}

PythonChild::~PythonChild() { end(); }

bool PythonChild::start(const char* interpreter) {
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) return false;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, sockets[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, sockets[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&files, STDERR_FILENO + 1);
  // A process group of its own: a terminal's Ctrl-C is for the server, which lets answers end.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::string name = interpreter, flag = "-B";
  std::array<char*, 4> arguments{name.data(), flag.data(), script_.data(), nullptr};
  const int failed =
      ::posix_spawnp(&pid_, interpreter, &files, &attributes, arguments.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  ::close(sockets[1]);
  socket_ = sockets[0];
  ::fcntl(socket_, F_SETFL, O_NONBLOCK);
  if (failed != 0) {
    pid_ = -1;
    end();
    return false;
  }
  interpreter_ = interpreter;
  first_answer_ = exchange(setup_);
  return !first_answer_.empty() || too_late_;
}

void PythonChild::end() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  pid_ = -1;
}

std::string PythonChild::ask(const std::string& question) {
  const std::scoped_lock lock(mutex_);
  for (int attempt = 0; attempt < 2 && !interpreter_.empty(); ++attempt) {
    if (socket_ < 0 && !start(std::string(interpreter_).c_str())) break;
    std::string answer = exchange(question);
    if (!answer.empty()) return answer;
    end();
    if (too_late_) break;
  }
  return {};
}

std::string PythonChild::exchange(const std::string& question) {
  too_late_ = false;
  deadline_ = std::chrono::steady_clock::now() + time_;
  std::string message = std::to_string(question.size()) + "\n" + question;
  if (!transfer(true, message.data(), message.size())) return {};
  std::string number;
  for (char c = 0; transfer(false, &c, 1) && c != '\n' && number.size() < 16;) number += c;
  size_t size = 0;
  std::from_chars(number.data(), number.data() + number.size(), size);
  if (size == 0 || size > kMaxAnswer) return {};
  std::string answer(size, '\0');
  return transfer(false, answer.data(), size) ? answer : std::string();
}

/// Writes or reads all the bytes. False if the child is gone, or too slow.
bool PythonChild::transfer(bool write, char* bytes, size_t size) {
  while (size > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline_ - std::chrono::steady_clock::now());
    pollfd one{socket_, static_cast<short>(write ? POLLOUT : POLLIN), 0};
    const int ready = left.count() > 0 ? ::poll(&one, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    too_late_ = ready == 0;
    if (ready <= 0) return false;
    const ssize_t n =
        write ? ::send(socket_, bytes, size, MSG_NOSIGNAL) : ::recv(socket_, bytes, size, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n <= 0) return false;
    bytes += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace serve
