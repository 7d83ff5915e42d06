// The simulator: every button is an operation of this lesson's BlockManager, or a step of its
// engine.

#include "viz/page.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "common/base/error.h"
#include "page_draw.h"
#include "page_live.h"
#include "page_simulator.h"
#include "page_view.h"
#include "viz/ui.h"

namespace lesson05 {
namespace {

constexpr int kNumBlocks = 64;
constexpr int kBlockSize = 16;

class SharingPage : public viz::Page {
 public:
  explicit SharingPage(const viz::PageContext& context) : seed_(context.seed), model_(context) {
    reset();
  }

  viz::PageInfo info() const override;
  void reset() override;
  std::string apply(const viz::Command& command) override;
  std::optional<int64_t> counter(std::string_view name) const override;
  std::vector<std::string> counter_names() const override;
  std::string next_step() const override;
  void check_invariants() const override;
  void draw(viz::Ui& ui) override;

 private:
  std::string do_command(const viz::Command& command);
  std::string simulate(const viz::Command& command);
  std::string start_live(const viz::Command& command);
  std::string step(const viz::Command& command);
  std::string stop();

  std::vector<NamedSequence> sequences() const {
    return live_ ? named_sequences(*live_) : named_sequences(*simulator_);
  }
  const BlockManager& manager() const { return live_ ? live_->manager() : simulator_->manager(); }

  uint64_t seed_;
  viz::LiveModel model_;
  std::unique_ptr<Simulator> simulator_;
  std::unique_ptr<LiveSharing> live_;  // after the model: it borrows it
  PageView view_;
  PageFields fields_;
};

viz::PageInfo SharingPage::info() const {
  return {
      .lesson = "05",
      .title = "Share and copy",
      .summary = "A fork shares its parent's blocks. A write into a shared block copies it first.",
      .commands = {"new NAME                 a sequence without tokens",
                   "append NAME N            N more tokens (all: for every sequence, or for none)",
                   "fork NAME NEW [NEW2 ..]  sequences with the same tokens in the same blocks",
                   "free NAME                drop the sequence",
                   "resize BLOCKS SIZE       an empty pool of BLOCKS blocks of SIZE tokens",
                   "live N \"PROMPT\" [TOKENS]        watch the engine draw N samples of a prompt",
                   "live beams N \"PROMPT\" [TOKENS]  watch a beam search with N beams",
                   "step [N]                 N more tokens of the live run",
                   "stop                     back from the live run to the simulator"}};
}

void SharingPage::reset() {
  live_.reset();
  simulator_ = std::make_unique<Simulator>(kNumBlocks, kBlockSize);
  view_ = view_of(*simulator_);
}

std::string SharingPage::apply(const viz::Command& command) {
  std::string story = do_command(command);
  view_ = live_ ? view_of(*live_, view_) : view_of(*simulator_);
  return story;
}

std::string SharingPage::do_command(const viz::Command& command) {
  if (command.verb == "live") return start_live(command);
  if (command.verb == "step") return step(command);
  if (command.verb == "stop") return stop();
  return simulate(command);
}

std::string SharingPage::simulate(const viz::Command& command) {
  const std::string& verb = command.verb;
  const bool known =
      verb == "new" || verb == "append" || verb == "fork" || verb == "free" || verb == "resize";
  if (!known) {
    kv::user_error(
        "{}: no such command; there are new, append, fork, free, resize, live, step, stop", verb);
  }
  if (live_) kv::user_error("{}: the engine is running; `stop` leads back to the simulator", verb);
  if (verb == "resize") {
    command.check_count(2, 2);
    const auto blocks = command.number(0, "the number of blocks", 1, Simulator::kMaxBlocks);
    const auto size = command.number(1, "the block size", 1, 256);
    simulator_ = std::make_unique<Simulator>(static_cast<int>(blocks), static_cast<int>(size));
    return fmt::format("a pool of {} blocks of {} tokens, all free", blocks, size);
  }
  command.check_count(verb == "append" || verb == "fork" ? 2 : 1, verb == "append" ? 2
                                                                  : verb == "fork"
                                                                      ? Simulator::kMaxSequences
                                                                      : 1);
  const std::string& name = command.word(0, "the name of a sequence");
  if (verb == "new") return simulator_->add(name);
  if (verb == "free") return simulator_->free(name);
  if (verb == "fork") return simulator_->fork(name, std::span(command.args).subspan(1));
  const auto count = static_cast<int>(command.number(1, "a number of tokens", 1, 1 << 20));
  const std::vector<std::string> names =
      name == "all" ? simulator_->names() : std::vector<std::string>{name};
  if (names.empty()) kv::user_error("append all: there is no sequence");
  return simulator_->append(names, count);
}

std::string SharingPage::start_live(const viz::Command& command) {
  if (live_) kv::user_error("live: the engine is running already; `stop` ends it");
  command.check_count(2, 4);
  LiveOptions options;
  options.seed = seed_;
  options.num_blocks = simulator_->num_blocks();
  options.block_size = simulator_->block_size();
  options.beams = command.word(0, "beams, or a number of samples") == "beams";
  const size_t first = options.beams ? 1 : 0;
  command.check_count(first + 2, first + 3);
  options.n = static_cast<int>(
      command.number(first, "a number of sequences", 1, LiveSharing::kMaxSequences));
  options.prompt = command.word(first + 1, "a prompt");
  if (command.args.size() > first + 2) {
    options.max_tokens = static_cast<int>(command.number(first + 2, "a number of tokens", 1, 512));
  }
  live_ = std::make_unique<LiveSharing>(model_.model(), model_.tokenizer(), options);
  return fmt::format("{} of \"{}\": {}", options.beams ? "beam search" : "samples", options.prompt,
                     live_->story());
}

std::string SharingPage::step(const viz::Command& command) {
  command.check_count(0, 1);
  const int64_t count = command.args.empty() ? 1 : command.number(0, "a number of steps", 1, 4096);
  if (!live_) kv::user_error("step: there is no live run; begin one with `live 4 \"a prompt\"`");
  if (live_->finished()) kv::user_error("step: the run has ended; `stop` leads back");
  for (int64_t i = 0; i < count && live_->step(); ++i) {
  }
  return live_->story();
}

std::string SharingPage::stop() {
  if (!live_) kv::user_error("stop: there is no live run");
  live_.reset();
  return "the live run is over; the simulator is as it was";
}

std::string SharingPage::next_step() const { return live_ && !live_->finished() ? "step" : ""; }

std::optional<int64_t> SharingPage::counter(std::string_view name) const {
  if (name == "live") return live_ ? 1 : 0;
  if (name == "generated") return live_ ? live_->num_generated() : 0;
  return counter_of(manager(), sequences(), name);
}

std::vector<std::string> SharingPage::counter_names() const {
  std::vector<std::string> names = counter_names_of(sequences());
  names.insert(names.end(), {"live", "generated"});
  return names;
}

void SharingPage::check_invariants() const {
  simulator_->check();
  if (live_) live_->check();
}

void SharingPage::draw(viz::Ui& ui) {
  if (live_) {
    draw_live(ui, *live_, view_);
  } else {
    draw_simulator(ui, fields_, *simulator_, view_);
  }
}

}  // namespace

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<SharingPage>(context);
}

}  // namespace lesson05
