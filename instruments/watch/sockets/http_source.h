#pragma once

// The cache of a server that answers over HTTP (./course serve): the blocks that stand in it, from
// /kv_snapshot, and then its events, from /kv_events.

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "instruments/watch/kv_events.h"

namespace watch {

class HttpSource {
 public:
  /// Connects to "http://HOST:PORT". Throws UserError for another address, and in a build without
  /// libevent.
  explicit HttpSource(const std::string& url);
  ~HttpSource();

  /// Waits for this time and returns the frames that have come. The first one has the blocks that
  /// stood in the cache. Numbers are this object's own, from 0. Throws UserError if the server
  /// cannot be reached, has no such routes, or has gone.
  std::vector<Frame> receive(std::chrono::milliseconds time);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace watch
