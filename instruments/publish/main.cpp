// Serves requests with lesson 08's engine, and publishes what happens to its cache as vLLM does.
//
//   publish 'tcp://*:5557' --replay 'tcp://*:5558' --wait 60
//   publish day.kvevents --requests FILE

#include <chrono>
#include <optional>
#include <string>

#include "common/error.h"
#include "common/table.h"
#include "instruments/publish/event_log.h"
#include "instruments/watch/recording.h"
#include "instruments/watch/sockets/sockets.h"
#include "lessons/08_scheduler/cli/progress.h"
#include "lessons/08_scheduler/cli/workload.h"
#include "lessons/08_scheduler/engine.h"
#include "programs/generate.h"
#include "programs/report.h"

namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

struct Options {
  kv::GenerateOptions generate;
  lesson08::WorkloadOptions workload;
  std::string to, replay, topic, requests_file;
  double wait_seconds = 0;
  int block_size = 16;
  int num_blocks = 40;
};

/// The target of the batches: the watchers of an endpoint, or a file.
class Output {
 public:
  explicit Output(const Options& options) {
    if (options.to.find("://") != std::string::npos) {
      publisher_.emplace(options.to, options.topic, options.replay);
      return;
    }
    if (!(options.replay + options.topic).empty()) {
      kv::user_error("--replay, --topic: wanted an endpoint as tcp://*:5557, found '{}'",
                     options.to);
    }
    recording_.emplace(options.to);
  }

  std::string name(const Options& options) const {
    return publisher_ ? publisher_->endpoint() : options.to;
  }
  /// Until the first watcher has come, or `seconds` have passed.
  void wait(double seconds) {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (publisher_ && !kv::interrupted() && Clock::now() < end) {
      if (publisher_->num_watchers(milliseconds(100)) > 0) return;
    }
  }
  /// Sends the events since the last call, as one batch.
  void send(watch::EventLog& log) {
    const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
    if (const auto frame = log.take(now.count())) {
      if (publisher_) publisher_->send(*frame);
      if (recording_) recording_->send(*frame);
      ++num_batches_;
    }
    if (publisher_) publisher_->answer_replays();
  }
  /// Watchers that have asked for frames again get all of them.
  void finish() {
    while (publisher_ && !kv::interrupted() && publisher_->answer_replays()) continue;
  }
  int64_t num_batches() const { return num_batches_; }

 private:
  std::optional<watch::Publisher> publisher_;
  std::optional<watch::RecordingWriter> recording_;
  int64_t num_batches_ = 0;
};

void run(const Options& options) {
  kv::refuse_same_file("to", options.to, options.requests_file);
  const kv::Console console;
  kv::Model model = kv::load_model(options.generate);
  const lesson08::Workload workload =
      lesson08::workload_of(options.requests_file, options.workload, options.generate, model);
  Output output(options);
  watch::EventLog log;
  lesson08::ServingEngine engine(
      model, {.block_size = options.block_size, .num_blocks = options.num_blocks},
      {.scheduler = {.max_tokens_per_pass = 256, .max_running = 32}, .on_cache_event = log.sink()});
  console.print("KV events at {}\n", output.name(options));
  console.flush();
  output.wait(options.wait_seconds);
  std::optional<lesson08::ServeProgress> progress(std::in_place, kv::stderr_is_terminal());
  const auto result = engine.serve(workload.requests, workload.arrivals, {},
                                   [&](const auto& scheduler, const auto&) {
                                     progress->pass(scheduler);
                                     output.send(log);
                                     return !kv::interrupted();
                                   });
  progress.reset();  // takes its live line away
  output.send(log);
  output.finish();
  console.print("{} {}, {} of events\n",
                kv::interrupted()
                    ? "interrupted after"
                    : kv::count_of(std::ssize(workload.requests), "request") + " served in",
                kv::count_of(result.generated.counters.passes, "pass"),
                kv::count_of(output.num_batches(), "batch"));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  kv::CommandLine command(
      "Serves requests with lesson 08's engine, and publishes what happens to its cache in vLLM's "
      "format. ./course watch and ./course viz watch follow it.",
      "./course publish");
  command
      .value("to ENDPOINT|FILE", options.to,
             "an endpoint that is bound, as tcp://*:5557, or a file that is recorded")
      .required();
  command.value("--replay ENDPOINT", options.replay,
                "where watchers ask for what they have missed (vLLM's replay_endpoint)");
  command.value("--topic TEXT", options.topic, "the topic of what is published");
  command
      .value("--wait SECONDS", options.wait_seconds,
             "wait up to SECONDS for a watcher before the first request comes")
      .real_between(0, 1e9);
  kv::add_model_options(command, options.generate);
  kv::add_seed_option(command, options.generate, "of the workload and of sampling");
  command
      .value("--num-requests N", options.workload.num_requests, "requests of the made-up workload")
      .between(1, 100'000);
  command
      .value("--requests FILE", options.requests_file,
             "JSON lines instead: {\"prompt\": .., \"max_tokens\": .., \"pass\": ..}")
      .excludes("--num-requests");
  kv::add_pool_options(command, options.block_size, options.num_blocks,
                       "blocks in the pool; 0: as many as all need");
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
