// Shows the KV cache of a server, from the events that it publishes, or from a recording.
//
//   watch tcp://HOST:5557 --replay tcp://HOST:5558 --record day.kvevents
//   watch day.kvevents --model DIR

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "common/error.h"
#include "common/table.h"
#include "common/utf8.h"
#include "instruments/watch/account.h"
#include "instruments/watch/recording.h"
#include "instruments/watch/sockets/catch_up.h"
#include "instruments/watch/sockets/sockets.h"
#include "programs/report.h"
#include "programs/run_main.h"
#include "qwen3/tokenizer.h"

namespace {

using namespace watch;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

struct Options {
  std::string source, topic, replay, record, json_file;
  std::filesystem::path model_dir;
  int prefixes = 10;
  double seconds = 0;
  bool batches = false;
};

bool is_endpoint(const std::string& source) { return source.find("://") != std::string::npos; }

/// Takes frames, records them, and shows each.
class Show {
 public:
  explicit Show(const Options& options) : console_(options.json_file), lines_(options.batches) {
    if (!options.record.empty()) record_.emplace(options.record);
  }

  void take(const Frame& frame) {
    if (record_) record_->send(frame);
    const Watcher::Step step = watcher_.take(frame);
    if (!lines_ && step.note.empty()) return;
    if (lines_ && !std::exchange(headed_, true)) console_.write(batch_header());
    console_.write(lines_ ? batch_line(watcher_, frame, step)
                          : "! " + kv::one_line(step.note) + "\n");
    console_.flush();
  }

  Watcher& watcher() { return watcher_; }
  const kv::Console& console() const { return console_; }

 private:
  kv::Console console_;
  bool lines_, headed_ = false;
  std::optional<RecordingWriter> record_;
  Watcher watcher_;
};

void read(const Options& options, RecordingReader& reader, Show& show) {
  Frame frame;
  while (!kv::interrupted() && reader.next(frame)) show.take(frame);
  if (reader.is_cut()) {
    show.console().print("! {} ends in the middle of a frame\n", kv::printable(options.source));
  }
}

void replay(Subscriber& subscriber, Show& show) {
  const bool answered = catch_up(subscriber, show.watcher(), milliseconds(2000),
                                 [&](const Frame& frame) { show.take(frame); });
  if (!answered) show.console().write("! the server does not answer at --replay\n");
}

/// Tells whether the server is there, whenever that changes.
class Connection {
 public:
  Connection(const kv::Console& console, const std::string& server)
      : console_(&console), server_(kv::printable(server)) {}

  void look(Subscriber& subscriber) {
    const bool stands = subscriber.is_connected();
    const bool soon = !stood_ && Clock::now() - begin_ < milliseconds(1000);
    if (told_ == stands || (!stands && soon)) return;
    told_ = stands;
    console_->print("{} {}\n",
                    stands   ? "connected to"
                    : stood_ ? "! the connection is lost; waiting for"
                             : "! no answer yet; waiting for",
                    server_);
    console_->flush();
    stood_ |= stands;
  }
  bool stood() const { return stood_; }

 private:
  const kv::Console* console_;
  std::string server_;
  Clock::time_point begin_ = Clock::now();
  std::optional<bool> told_;
  bool stood_ = false;
};

void listen(const Options& options, Subscriber& subscriber, Show& show) {
  show.console().print("watching {}; Ctrl-C ends it\n", kv::printable(options.source));
  show.console().flush();
  Connection connection(show.console(), options.source);
  if (subscriber.can_replay()) replay(subscriber, show);
  const auto end = Clock::now() + std::chrono::duration<double>(options.seconds);
  Frame frame;
  while (!kv::interrupted() && (options.seconds == 0 || Clock::now() < end)) {
    connection.look(subscriber);
    const bool came = subscriber.receive(frame, milliseconds(100));
    // News of a connection come before its first frame.
    const bool is_new = subscriber.reconnected() && show.watcher().next_seq() > 0;
    const bool misses = came && show.watcher().misses_before(frame);
    if (subscriber.can_replay() && (is_new || misses)) {
      replay(subscriber, show);
    } else if (is_new) {
      show.watcher().doubt();
    }
    if (came) show.take(frame);
  }
  if (!connection.stood())
    show.console().print("! {} never answered\n", kv::printable(options.source));
  if (subscriber.num_refused() > 0) {
    show.console().print("! {} that were no frames of events\n",
                         kv::count_of(subscriber.num_refused(), "message"));
  }
}

Words words_of(const Options& options) {
  if (options.model_dir.empty()) {
    return
        [](std::span<const int32_t> tokens) { return fmt::format("{}", fmt::join(tokens, " ")); };
  }
  const auto tokenizer = std::make_shared<kv::Tokenizer>(kv::Tokenizer::load(options.model_dir));
  return [tokenizer](std::span<const int32_t> tokens) {
    std::vector<int32_t> known;
    for (const int32_t id : tokens) {
      if (tokenizer->has(id)) known.push_back(id);
    }
    std::string text = tokenizer->decode(known);
    for (char& c : text) c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    return text;
  };
}

void run(const Options& options) {
  const Words words = words_of(options);
  const bool live = is_endpoint(options.source);
  if (!live && (!options.replay.empty() || !options.topic.empty())) {
    kv::user_error("--replay, --topic: only a server has them, and {} is a file; leave them out",
                   options.source);
  }
  if (!live) {
    kv::refuse_same_file("--record", options.record, options.source);
    kv::refuse_same_file("--json", options.json_file, options.source);
  }
  kv::refuse_same_file("--json", options.json_file, options.record);
  // The source comes first: a source that cannot be read must not cost the file of --record.
  std::optional<Subscriber> subscriber;
  std::optional<RecordingReader> reader;
  if (live) {
    subscriber.emplace(options.source, options.topic, options.replay);
  } else {
    reader.emplace(options.source);
  }
  Options shown = options;
  shown.batches = options.batches || live;
  Show show(shown);
  if (subscriber) {
    listen(shown, *subscriber, show);
    show.console().write("\n");
  } else {
    read(shown, *reader, show);
  }
  print_account(show.console(), show.watcher(), static_cast<size_t>(options.prefixes), words);
  kv::write_json(options.json_file, json_of(show.watcher()));
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  kv::CommandLine command(
      "What is in the KV cache of a server: which prefixes, what is evicted, what comes again. "
      "From the KV events that vLLM publishes (--kv-events-config), or ./course serve "
      "(--kv-events), or from a recording of them.",
      "./course watch");
  command
      .value("what ENDPOINT|FILE", options.source,
             "a server's endpoint, as tcp://127.0.0.1:5557, or a recording")
      .required();
  command.value("--topic TEXT", options.topic, "only frames whose topic begins so");
  command.value(
      "--replay ENDPOINT", options.replay,
      "the server's replay_endpoint: asked for what came before, and for what is missing");
  command.value("--record FILE", options.record, "writes all frames into a recording");
  command.flag("--batches", options.batches, "a line for each batch of a recording, too");
  command.value("--prefixes N", options.prefixes, "prefixes in the account, the longest first")
      .between(0, 1 << 20);
  command.value("--for SECONDS", options.seconds, "ends after SECONDS; 0: at Ctrl-C")
      .real_between(0, 1e9);
  command.value("--model DIR", options.model_dir,
                "its tokenizer turns tokens into words; without it they are numbers");
  command.json_file(options.json_file, "the account");
  return kv::run_main(command, argc, argv, [&] { run(options); });
}
