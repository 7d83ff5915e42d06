#include "redis_server.h"

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "common/error.h"

#if defined(__linux__) && !defined(__EMSCRIPTEN__)
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

namespace lesson13 {
namespace {

bool answers(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool good = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return good;
}

}  // namespace

bool RedisServer::is_installed() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((folder + "/redis-server").c_str(), X_OK) == 0) return true;
  }
  return false;
}

RedisServer::RedisServer(int port, const std::vector<std::string>& more,
                         const std::string& max_memory)
    : socket_(folder_.path() / "redis.sock") {
  if (!is_installed()) kv::user_error("redis-server not found; install the package redis-server");
  std::vector<std::string> words{"redis-server",
                                 "--port",
                                 std::to_string(port),
                                 "--unixsocket",
                                 socket_,
                                 "--unixsocketperm",
                                 "700",
                                 "--dir",
                                 folder_.path().string(),
                                 "--save",
                                 "",
                                 "--appendonly",
                                 "no",
                                 "--maxmemory",
                                 max_memory,
                                 "--maxmemory-policy",
                                 "allkeys-lru"};
  words.insert(words.end(), more.begin(), more.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int nowhere = open("/dev/null", O_RDWR);
    for (const int fd : {0, 1, 2}) dup2(nowhere, fd);
    execvp("redis-server", arguments.data());
    _exit(127);
  }
  for (int i = 0; i < 500; ++i) {
    if (answers(socket_)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  kv::user_error("redis-server does not answer at {}", socket_);
}

RedisServer::~RedisServer() {
  kill(pid_, SIGCONT);
  kill(pid_, SIGKILL);  // it has nothing to save
  waitpid(pid_, nullptr, 0);
}

}  // namespace lesson13
#else
namespace lesson13 {

bool RedisServer::is_installed() { return false; }
RedisServer::RedisServer(int, const std::vector<std::string>&, const std::string&) {
  kv::user_error("this program starts no Redis server here");
}
RedisServer::~RedisServer() = default;

}  // namespace lesson13
#endif
