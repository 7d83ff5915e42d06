#pragma once

// A Redis server of this program: it listens on a socket in a folder of its own, writes nothing to
// a disk, and ends with the program.

#include <string>
#include <vector>

#include "common/temp_folder.h"
#include "redis_store.h"

namespace lesson13 {

class RedisServer {
 public:
  /// Whether there is a redis-server to be started.
  static bool is_installed();
  /// `port` 0 means the socket alone. `more` are further options of redis-server. Throws UserError
  /// if it does not answer within a few seconds.
  explicit RedisServer(int port = 0, const std::vector<std::string>& more = {},
                       const std::string& max_memory = "1gb");
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  RedisAddress address() const { return {.host = socket_, .port = 0, .password = ""}; }
  int pid() const { return pid_; }

 private:
  kv::TempFolder folder_;
  std::string socket_;
  int pid_ = -1;
};

}  // namespace lesson13
