#include "common/program/cli.h"

#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <limits>

#include "common/base/error.h"

namespace kv {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

void on_interrupt(int) {
  g_interrupted = 1;
  std::signal(SIGINT, SIG_DFL);  // a second Ctrl-C ends the program at once
}

/// One line that a terminal can show, however the message came and whatever it quotes.
int report(std::string message, int code) {
  constexpr size_t kMaxBytes = 1000;
  if (message.size() > kMaxBytes) {
    size_t end = kMaxBytes / 2;
    while (end > 0 && (message[end] & 0xC0) == 0x80) --end;  // not inside of a character
    size_t rest = message.size() - kMaxBytes / 2;
    while (rest < message.size() && (message[rest] & 0xC0) == 0x80) ++rest;
    message.replace(end, rest - end, " [...] ");
  }
  for (char& c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) c = c == '\n' || c == '\r' ? ' ' : '?';
  }
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", message.c_str());
  return code;
}

/// Parses and runs; every failure is an exception.
void parse_and_run(CLI::App& app, int argc, char** argv, const std::function<void()>& body) {
  const Console out("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    out.write(app.help());
    out.flush();
    return;
  } catch (const CLI::ParseError& error) {
    user_error("{}; {} --help lists the options", error.what(), app.get_name());
  }
  body();
  out.flush();
}

}  // namespace

bool interrupted() { return g_interrupted != 0; }

int run_main(CLI::App& app, int argc, char** argv, const std::function<void()>& body) {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a failed write, and reported as one
  app.get_formatter()->column_width(34);
  if (app.get_name().empty()) app.name(std::filesystem::path(argv[0]).filename().string());
  try {
    parse_and_run(app, argc, argv, body);
  } catch (const UserError& error) {
    return report(error.what(), kExitUser);
  } catch (const DeviceError& error) {
    return report(error.what(), kExitUser);
  } catch (const std::bad_alloc&) {
    return report("out of memory: use a smaller model, fewer prompts or fewer tokens", kExitUser);
  } catch (const std::exception& error) {
    return report(fmt::format("internal: {}", error.what()), kExitInternal);
  }
  return interrupted() ? kExitInterrupted : kExitOk;
}

namespace {

/// Shows how far loading is, from two seconds on: on a terminal one line that is rewritten, else a
/// line for each quarter.
class ProgressLine {
 public:
  void operator()(int64_t done, int64_t all) {
    using namespace std::chrono_literals;
    const auto now = std::chrono::steady_clock::now();
    if (now - start_ < 2s || all <= 0) return;
    const int quarter = static_cast<int>(4 * done / all);
    const bool due = terminal_ ? now - last_ > 100ms || done == all : quarter > quarter_;
    if (!due) return;
    last_ = now;
    quarter_ = quarter;
    open_ = terminal_ && done < all;
    std::fprintf(stderr, "%sloading the model: %s of %s%s", terminal_ ? "\r\x1b[K" : "",
                 human_bytes(done).c_str(), human_bytes(all).c_str(), open_ ? "" : "\n");
  }
  ~ProgressLine() {
    if (open_) std::fputc('\n', stderr);
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_;
  bool terminal_ = stderr_is_terminal();
  int quarter_ = 0;
  bool open_ = false;
};

}  // namespace

Model load_model(const GenerateOptions& options) {
  const Device device = resolve_device(options.device);
  ProgressLine progress;
  return Model::load(options.model_dir, device,
                     [&](int64_t done, int64_t all) { progress(done, all); });
}

std::vector<Request> make_requests(const GenerateOptions& options, const Tokenizer& tokenizer,
                                   const ModelConfig& config) {
  validate(options.sampling);
  std::vector<Request> requests;
  for (const std::string& prompt : options.prompts) {
    if (prompt.empty()) user_error("--prompt is empty: give at least one character");
    Request request{.prompt = tokenizer.encode(prompt),
                    .max_tokens = options.max_tokens,
                    .sampling = options.sampling,
                    .stop_token_ids = config.eos_token_ids};
    requests.push_back(std::move(request));
  }
  return requests;
}

GenerateResult generate_and_print(const Console& console, Engine& engine,
                                  const Tokenizer& tokenizer, const GenerateOptions& options,
                                  std::span<const Request> requests) {
  StreamPrinter printer(console, tokenizer, options.prompts, requests);
  GenerateResult result = engine.generate(
      requests, [&](size_t request, int32_t token) { return printer.on_token(request, token); });
  printer.finish();
  return result;
}

}  // namespace kv
