#pragma once

// What happens to the server's cache, told to whoever watches, in vLLM's format.

#include <memory>
#include <string>

#include "common/base/console.h"
#include "common/program/options.h"
#include "lessons/07_lru_eviction/watch/event_log.h"

namespace lesson08 {

/// vLLM's kv-events-config calls the first three endpoint, replay_endpoint and topic.
struct KvEventOptions {
  std::string to;  // an endpoint that is bound, or a file that is recorded; empty: nobody is told
  std::string replay, topic;
  double wait_seconds = 0;
};
void add_kv_event_options(kv::CommandLine& command, KvEventOptions& options);

class KvEventOutput {
 public:
  /// Throws UserError.
  explicit KvEventOutput(const KvEventOptions& options);
  ~KvEventOutput();

  /// For ServeOptions::on_cache_event; empty if nobody is told.
  lesson07::EventSink sink();
  /// Until somebody watches, but not longer than the options say.
  void wait(const kv::Console& console);
  /// What happened since the last call is one batch.
  void publish();

 private:
  struct Target;
  std::unique_ptr<Target> target_;
  lesson07::watch::EventLog log_;
};

}  // namespace lesson08
