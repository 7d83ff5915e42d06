#pragma once

// What a watcher asks a server for when frames are missing, or when the connection was lost.

#include <chrono>
#include <functional>

#include "instruments/watch/sockets/sockets.h"
#include "instruments/watch/watcher.h"

namespace watch {

/// Asks for the frames that `watcher` has missed, and hands on what comes. The last frame that the
/// watcher has is asked for, too: if the server has another one under that number, it has been
/// restarted, and all of its frames are asked for. Where nothing proves that it is the same server,
/// the watcher doubts. False if the server was silent for this time.
bool catch_up(Subscriber& subscriber, Watcher& watcher, std::chrono::milliseconds time,
              const std::function<void(const Frame&)>& take);

}  // namespace watch
