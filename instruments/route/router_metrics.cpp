#include <fmt/format.h>

#include <algorithm>

#include "instruments/route/router_state.h"
#include "instruments/serve/metrics.h"

namespace route {

std::string Router::metrics() const {
  std::string text;
  const auto head = [&](const char* name, const char* kind, const char* help) {
    text +=
        fmt::format("# HELP course:route_{0} {1}\n# TYPE course:route_{0} {2}\n", name, help, kind);
  };
  const auto total = [&](const char* name, const char* help, int64_t value) {
    head(name, "counter", help);
    text += fmt::format("course:route_{}{{policy=\"{}\"}} {}\n", name, name_of(chooser_.policy()),
                        value);
  };
  const auto of_each = [&](const char* name, const char* kind, const char* help,
                           const auto& value) {
    head(name, kind, help);
    for (const auto& server : servers_) {
      text += fmt::format("course:route_{}{{server=\"{}\"}} {}\n", name,
                          serve::escaped(server->url.text), value(*server));
    }
  };
  total("blocks_asked_total", "Full blocks of the prompts that were sent.", blocks_asked_);
  total("blocks_found_total", "Those that were cached where they were sent.", blocks_found_);
  total("sent_elsewhere_total", "Requests that a server could not take.", num_sent_elsewhere_);
  total("failed_total", "Requests that got no whole answer.", num_failed_);
  total("prefills_total", "Requests that were sent to a prefill server first.", num_prefills_);
  total("prefills_failed_total", "Those that it did not answer.", num_prefills_failed_);
  of_each("up", "gauge", "1 if requests are sent there.",
          [](const Server& s) { return int{s.up}; });
  of_each("requests_total", "counter", "Requests sent there.",
          [](const Server& s) { return s.num_requests; });
  of_each("failures_total", "counter", "Requests that it did not answer.",
          [](const Server& s) { return s.num_failures; });
  of_each("running", "gauge", "Requests in flight there.",
          [](const Server& s) { return s.state.num_running(); });
  of_each("waiting_tokens", "gauge", "Tokens of prompts sent there and not computed.",
          [](const Server& s) { return s.state.waiting_tokens(); });
  of_each("prefill_rate", "gauge", "Tokens of prompts that it computes in a second.",
          [](const Server& s) {
            return s.state.tokens_computed() / std::max(1e-9, s.state.seconds_busy());
          });
  of_each("cached_blocks", "gauge", "Different blocks in its cache.",
          [](const Server& s) { return s.state.mirror.num_blocks(); });
  of_each("exact", "gauge", "1 if the mirror of its cache misses no event.",
          [](const Server& s) { return int{s.state.mirror.is_exact()}; });
  of_each("replays_total", "counter", "Lost streams of events that were continued.",
          [](const Server& s) { return s.state.mirror.num_replays(); });
  of_each("snapshots_total", "counter", "Snapshots of its cache.",
          [](const Server& s) { return s.state.mirror.num_snapshots(); });
  of_each("restarts_total", "counter", "Times that it was found to be another process.",
          [](const Server& s) { return s.state.mirror.num_restarts(); });
  return text;
}

}  // namespace route
