#pragma once

// The thread that runs the lesson's server. Submits and aborts take effect between two passes, and
// each pass is reported once.

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "instruments/serve/event_log.h"
#include "instruments/serve/lesson_server.h"
#include "instruments/watch/sockets/sockets.h"

namespace serve {

/// A request on its way to the lesson's server. Its id is larger than those before.
struct Submission {
  int64_t id = 0;
  kv::Request request;
  lesson08::RequestOptions options = {};
};

using Clock = std::chrono::steady_clock;

/// Report of the thread after a pass, or after submits and aborts without one.
struct PassReport {
  Pass pass = {};
  Clock::time_point began = {}, ended = {};
  struct Refused {
    int64_t id = 0;
    std::string message;
  };
  std::vector<Refused> refused = {};              // requests that can never run
  std::optional<watch::Frame> cache_events = {};  // of the cache
  std::string failure = {};                       // the server is dead, and this is why
};

class PassThread {
 public:
  using Reporter = std::function<void(PassReport)>;

  /// The thread calls `on_report`. The server's cache tells `log` its events, which the publisher
  /// sends, too, if there is one. All are borrowed.
  PassThread(LessonServer& server, watch::EventLog& log, Reporter on_report,
             watch::Publisher* publisher);
  /// Ends the thread after the pass that runs.
  ~PassThread();

  /// Samples of one prompt: those after the first are submitted when the first has its first token,
  /// so that they find the prompt in the cache.
  void submit(std::vector<Submission> samples);
  void abort(int64_t id);

 private:
  using Command = std::function<void(PassReport&)>;  // runs on the thread, before a pass

  void order(Command command);
  void run();
  bool wait(std::vector<Command>& commands);
  void pass(PassReport& report);
  void submit_now(const Submission& submission, PassReport& report);

  LessonServer& server_;
  watch::EventLog& log_;
  Reporter on_report_;
  watch::Publisher* publisher_;
  std::map<int64_t, std::vector<Submission>> followers_;  // by the first sample's id
  bool dead_ = false;

  std::mutex mutex_;  // of the rest
  std::condition_variable news_;
  std::vector<Command> commands_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace serve
