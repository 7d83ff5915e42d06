#include "kv_event_output.h"

#include <chrono>
#include <optional>

#include "common/base/error.h"
#include "common/program/run_main.h"
#include "lessons/07_lru_eviction/watch/recording.h"
#include "lessons/07_lru_eviction/watch/sockets.h"

namespace lesson08 {

using std::chrono::milliseconds;

struct KvEventOutput::Target {
  double wait_seconds = 0;
  std::optional<lesson07::watch::RecordingWriter> recording;
  std::optional<lesson07::watch::Publisher> publisher;
};

void add_kv_event_options(kv::CommandLine& command, KvEventOptions& options) {
  command.value(
      "--kv-events TO", options.to,
      "publish what happens to the cache: at an endpoint as tcp://*:5557, or into a file; "
      "./course watch reads both");
  command.value("--kv-events-replay ENDPOINT", options.replay,
                "where watchers ask for what they have missed");
  command.value("--kv-events-topic TEXT", options.topic, "the topic of what is published");
  command
      .value("--kv-events-wait SECONDS", options.wait_seconds,
             "wait so long for a watcher before the first request comes")
      .real_between(0, 1e9);
}

KvEventOutput::KvEventOutput(const KvEventOptions& options) : target_(new Target) {
  const bool is_endpoint = options.to.find("://") != std::string::npos;
  if (!is_endpoint && !(options.replay + options.topic).empty()) {
    kv::user_error(
        "--kv-events-replay, --kv-events-topic: wanted an endpoint at --kv-events, found '{}'",
        options.to);
  }
  if (is_endpoint) {
    target_->wait_seconds = options.wait_seconds;
    target_->publisher.emplace(options.to, options.topic, options.replay);
  } else if (!options.to.empty()) {
    target_->recording.emplace(options.to);
  }
}

KvEventOutput::~KvEventOutput() = default;

lesson07::EventSink KvEventOutput::sink() {
  return target_->publisher || target_->recording ? log_.sink() : lesson07::EventSink{};
}

void KvEventOutput::wait(const kv::Console& console) {
  if (!target_->publisher) return;
  console.print("KV events at {}\n", target_->publisher->endpoint());
  console.flush();
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(target_->wait_seconds);
  while (!kv::interrupted() && std::chrono::steady_clock::now() < end) {
    if (target_->publisher->num_watchers(milliseconds(100)) > 0) return;
    target_->publisher->answer_replays();
  }
}

void KvEventOutput::publish() {
  if (target_->publisher) target_->publisher->answer_replays();
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  const auto frame = log_.take(now.count());
  if (!frame) return;
  if (target_->publisher) target_->publisher->send(*frame);
  if (target_->recording) target_->recording->send(*frame);
}

}  // namespace lesson08
