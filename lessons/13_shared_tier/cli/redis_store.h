#pragma once

// Redis as the store: one process, or a cluster of them on many machines.

#include <chrono>
#include <memory>
#include <string>

#include "../block_store.h"

namespace lesson13 {

struct RedisAddress {
  std::string host;  // or a socket's path, if the port is 0
  int port = 0;
  std::string password;
  std::string user = {};  // empty means Redis' default user
  friend bool operator==(const RedisAddress&, const RedisAddress&) = default;
};
/// "redis://user:password@host:port" (user, password and port may be missing, a /0 may follow) or
/// "unix:/path".
/// Throws UserError for anything else.
RedisAddress parse_redis_address(const std::string& text);

struct RedisOptions {
  /// A node that is silent for this time counts as dead. It is asked again after a pause, which
  /// doubles each time it fails again.
  std::chrono::milliseconds timeout{200};
  std::chrono::milliseconds first_pause{100};
  std::chrono::milliseconds longest_pause{10'000};
};

/// Connects when it is first used. If the address is that of a cluster's node, that node names the
/// others. From then on SIGPIPE is ignored in this process: hiredis 0.14 writes to connections that
/// Redis may have closed. Throws UserError in a build without hiredis.
std::unique_ptr<BlockStore> make_redis_store(const RedisAddress& address,
                                             const RedisOptions& options = {});
/// A node's share of a cluster's names: CRC16 (XMODEM) of the key, modulo 16,384.
int slot_of_key(const std::string& key);

}  // namespace lesson13
