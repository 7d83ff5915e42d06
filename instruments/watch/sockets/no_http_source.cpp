// Instead of http_source.cpp in a build without libevent.

#include "common/error.h"
#include "instruments/watch/sockets/http_source.h"

namespace watch {

struct HttpSource::Impl {};
HttpSource::HttpSource(const std::string& url) {
  kv::user_error(
      "{}: this build has no libevent; install libevent-dev, then configure again: cmake --preset "
      "default",
      url);
}
HttpSource::~HttpSource() = default;
std::vector<Frame> HttpSource::receive(std::chrono::milliseconds) { return {}; }

}  // namespace watch
