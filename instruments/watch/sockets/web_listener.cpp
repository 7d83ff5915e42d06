// Instead of listener.cpp in a browser, which attaches to ./course serve alone. The browser
// receives what comes; the page takes it when it looks for frames.

#include <emscripten.h>
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "common/error.h"
#include "common/url.h"
#include "instruments/watch/sockets/listener.h"
#include "instruments/watch/sockets/server_events.h"

// clang-format off
// Attaches to a server and returns the feed's number. Each of its news begins with a letter: s is
// the snapshot, e an event, x the reason why no more can come. The snapshot is asked for when
// events come, so that none is missing between the two.
EM_JS(int, watch_attach, (const char* server), {
  const url = UTF8ToString(server);
  const news = [];
  const source = new EventSource(url + '/kv_events');
  var attached = false;
  const end = function(why) {
    source.close();
    news.push('x' + why);
  };
  source.onmessage = function(event) { news.push('e' + event.data); };
  source.onerror = function() {
    end(attached ? 'the server has gone' : 'no server answers this page (one at another address needs --cors)');
  };
  source.onopen = function() {
    attached = true;
    fetch(url + '/kv_snapshot').then(function(answer) {
      if (!answer.ok) throw new Error('it answers HTTP ' + answer.status);
      return answer.text();
    }).then(function(text) { news.push('s' + text); }).catch(function(error) { end(error.message); });
  };
  if (!Module.watched) Module.watched = [];
  return Module.watched.push({source: source, news: news}) - 1;
});
// Bytes of the next news; -1 if there are none.
EM_JS(int, watch_size, (int feed), {
  const news = Module.watched[feed].news;
  return news.length ? lengthBytesUTF8(news[0]) : -1;
});
EM_JS(void, watch_take, (int feed, char* to, int room), {
  stringToUTF8(Module.watched[feed].news.shift(), to, room);
});
EM_JS(void, watch_detach, (int feed), {
  Module.watched[feed].source.close();
  Module.watched[feed] = null;
});
// clang-format on

namespace watch {

/// There is none: the browser's loop receives.
class Listener::Thread {
 public:
  explicit Thread(const std::string& url) : url_(url), feed_(watch_attach(url.c_str())) {}
  ~Thread() { watch_detach(feed_); }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;

  void receive() {
    for (int size; error.empty() && (size = watch_size(feed_)) >= 0;) {
      std::string news(static_cast<size_t>(size) + 1, '\0');  // and the end that JavaScript writes
      watch_take(feed_, news.data(), size + 1);
      news.pop_back();
      try {
        take(news.at(0), news.substr(1));
      } catch (const std::exception& problem) {
        error = fmt::format(
            "no more can come: {}: {}; attach to it again once ./course serve runs there", url_,
            problem.what());
      }
    }
    for (Frame& frame : events_.frames()) waiting.push_back(std::move(frame));
  }

  std::deque<Frame> waiting;
  std::string error;

 private:
  void take(char kind, const std::string& text) {
    if (kind == 'x') throw std::runtime_error(text);
    kind == 's' ? events_.take_snapshot(text) : events_.take_event(text);
  }

  std::string url_;
  int feed_;
  ServerEvents events_;
};

Listener::Listener(const std::string& endpoint, const std::string&) {
  const auto url = kv::parse_url(endpoint);
  if (!url || (url->scheme != "http" && url->scheme != "https")) {
    kv::user_error(
        "{}: a page of the web can attach to ./course serve alone, at http://HOST:PORT; ./course "
        "viz watch listens to other servers, too",
        endpoint);
  }
  thread_ = std::make_unique<Thread>(endpoint.substr(0, endpoint.find_last_not_of('/') + 1));
}
Listener::~Listener() = default;

size_t Listener::num_waiting() const {
  thread_->receive();
  return thread_->waiting.size();
}

std::vector<Frame> Listener::take(size_t max_frames) {
  std::deque<Frame>& waiting = thread_->waiting;
  const size_t count = std::min(max_frames, num_waiting());
  const auto end = waiting.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<Frame> taken(std::make_move_iterator(waiting.begin()), std::make_move_iterator(end));
  waiting.erase(waiting.begin(), end);
  return taken;
}

std::string Listener::error() const { return thread_->error; }

}  // namespace watch
