// Instead of sockets.cpp in a build without ZeroMQ; and of listener.cpp, but for a browser, which
// has web_listener.cpp.

#include "common/error.h"
#include "instruments/watch/sockets/listener.h"
#include "instruments/watch/sockets/sockets.h"

namespace watch {
namespace {

[[noreturn]] void missing() {
  kv::user_error(
      "this build has no ZeroMQ, so it can neither watch nor publish at an address, only read and "
      "write recordings; install libzmq (Debian: libzmq3-dev), then configure again: cmake "
      "--preset default");
}

}  // namespace

struct Publisher::Sockets {};
struct Subscriber::Sockets {};
Publisher::Publisher(const std::string&, const std::string&, const std::string&) { missing(); }
Publisher::~Publisher() = default;
void Publisher::send(const Frame&) { missing(); }
bool Publisher::answer_replays() { missing(); }
int Publisher::num_watchers(std::chrono::milliseconds) { missing(); }
Subscriber::Subscriber(const std::string&, const std::string&, const std::string&) { missing(); }
Subscriber::~Subscriber() = default;
bool Subscriber::receive(Frame&, std::chrono::milliseconds) { missing(); }
bool Subscriber::replay(uint64_t, std::chrono::milliseconds,
                        const std::function<void(const Frame&)>&) {
  missing();
}
bool Subscriber::can_replay() const { missing(); }
bool Subscriber::is_connected() { missing(); }
bool Subscriber::reconnected() { missing(); }

#ifndef __EMSCRIPTEN__
class Listener::Thread {};
Listener::Listener(const std::string&, const std::string&) { missing(); }
Listener::~Listener() = default;
size_t Listener::num_waiting() const { missing(); }
std::vector<Frame> Listener::take(size_t) { missing(); }
std::string Listener::error() const { missing(); }
#endif

}  // namespace watch
