#include "second_act.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/defer.h"
#include "common/temp_folder.h"
#include "lessons/10_windows/engine.h"
#include "lessons/11_host_tier/engine.h"
#include "lessons/12_file_tier/engine.h"
#include "lessons/13_shared_tier/cli/memory_store.h"
#include "lessons/13_shared_tier/engine.h"
#include "lessons/14_fp8_pages/engine.h"
#include "programs/generate.h"

namespace ladder {

struct Surroundings {
  kv::TempFolder folder;
  lesson13::MemoryStore store;
};

namespace {

using Engine = std::unique_ptr<kv::Engine>;
// The counts of a case must not depend on a machine's speed: what can be loaded is loaded, and the
// store answers at once.
using lesson11::LoadPolicy;

Engine make_windows(kv::Model& model, const Options& options, Surroundings&) {
  return make(lesson10::make_engine, model, options);
}

Engine make_host_tier(kv::Model& model, const Options& options, Surroundings&) {
  return std::make_unique<lesson11::HostTierEngine>(
      model, paged_options<lesson11::PagedOptions>(options), lesson08::ServeOptions{},
      lesson11::HostTierOptions{.policy = LoadPolicy::kAlways});
}

Engine make_file_tier(kv::Model& model, const Options& options, Surroundings& around) {
  return std::make_unique<lesson12::FileTierEngine>(
      model, paged_options<lesson12::PagedOptions>(options), lesson08::ServeOptions{},
      lesson12::FileTierOptions{.host = {.policy = LoadPolicy::kAlways},
                                .file = around.folder.path() / "kv.blocks"});
}

Engine make_shared_tier(kv::Model& model, const Options& options, Surroundings& around) {
  return std::make_unique<lesson13::SharedTierEngine>(
      model, paged_options<lesson13::PagedOptions>(options), around.store, lesson08::ServeOptions{},
      lesson13::SharedTierOptions{.host = {.policy = LoadPolicy::kAlways},
                                  .policy = LoadPolicy::kAlways,
                                  .run = kv::RunJobs::kAtOnce});
}

Engine make_fp8(kv::Model& model, const Options& options, Surroundings&) {
  return make(lesson14::make_engine, model, options);
}

const Lesson& lesson_of(const std::string& number) {
  return *std::ranges::find(lessons(), number, &Lesson::number);
}

/// The windows, each sixth layer without one; those of the model if `window` is 0.
void set_up(kv::Model& model, const Case& what) {
  if (what.window > 0) {
    model.set_windows(kv::windows_of(what.window, 6, model.config().num_layers));
  }
  model.set_kv_format(what.format);
}

}  // namespace

const std::vector<Case>& cases() {
  constexpr auto kRows = &kv::EngineCounters::kv_rows_computed;
  constexpr auto kAtOnce = &kv::EngineCounters::max_sequences;
  static const std::vector<Case> kCases{
      {.name = "with windows",
       .lesson = "10",
       .make_engine = make_windows,
       .gain = kAtOnce,
       .more = true,
       .window = 32},
      {.name = "after evictions", .lesson = "11", .make_engine = make_host_tier, .gain = kRows},
      {.name = "after a restart",
       .lesson = "12",
       .make_engine = make_file_tier,
       .gain = kRows,
       .is_second = true},
      {.name = "on the next server",
       .lesson = "13",
       .make_engine = make_shared_tier,
       .gain = kRows,
       .is_second = true},
      {.name = "in FP8",
       .lesson = "14",
       .make_engine = make_fp8,
       .gain = kAtOnce,
       .more = true,
       .format = kv::KvFormat::kFp8}};
  return kCases;
}

std::vector<Pair> run_cases(kv::Model& model, const Workload& workload, std::span<const Case> some,
                            const Options& options, const Watch& watch) {
  const kv::ModelConfig before = model.config();
  const kv::Defer restore{[&] {
    model.set_windows(before.windows);
    model.set_kv_format(before.kv_format);
  }};
  const auto make_lesson08 = [](kv::Model& its, const Options& its_options, Surroundings&) {
    return make(lesson08::make_engine, its, its_options);
  };
  std::vector<Pair> pairs;
  for (const Case& what : some) {
    Pair pair{.what = what, .rungs = {}};
    model.set_windows(before.windows);
    set_up(model, what);
    for (const auto& [number, make_engine] :
         {std::pair{std::string("08"), +make_lesson08}, {what.lesson, what.make_engine}}) {
      const Lesson& lesson = lesson_of(number);
      if (watch.on_lesson) watch.on_lesson(lesson);
      Surroundings around;
      std::optional<Rung> rung;
      for (int start = 0; start < (what.is_second ? 2 : 1); ++start) {
        const auto engine = make_engine(model, options, around);
        rung = run_lesson(lesson, *engine, workload, options, watch.on_token);
        if (!rung) return pairs;
      }
      pair.rungs.push_back(std::move(*rung));
    }
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

}  // namespace ladder
