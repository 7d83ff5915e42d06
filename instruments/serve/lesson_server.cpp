#include "instruments/serve/lesson_server.h"

#include <algorithm>

#include "common/error.h"
#include "common/table.h"
#include "lessons/08_scheduler/cli/pool_sizes.h"
#include "lessons/09_lookahead/engine.h"
#include "lessons/10_windows/engine.h"
#include "lessons/12_file_tier/engine.h"
#include "lessons/14_fp8_pages/engine.h"

namespace serve {
namespace {

template <class Server>
class LessonServerOf final : public LessonServer {
 public:
  template <class... Arguments>
  explicit LessonServerOf(Arguments&&... arguments)
      : server_(std::forward<Arguments>(arguments)...) {}

  void submit(int64_t id, const kv::Request& request, lesson08::RequestOptions options) override {
    server_.submit(id, request, std::move(options));
  }
  bool abort(int64_t id) override { return server_.abort(id); }
  /// Blocks of the last pass go to the store in later steps.
  bool idle() const override {
    if constexpr (kHasStore) {
      const lesson13::SharedTier& tier = server_.tier();
      if (tier.num_puts_confirmed() < tier.num_puts_issued()) return false;
    }
    return server_.idle();
  }
  Pass step() override {
    Pass pass;
    const std::optional<int64_t> before = num_loaded_tokens();
    pass.step = server_.step([&](const auto& scheduler, const auto& output) {
      for (const int64_t id : output.started) {
        const auto& request = scheduler.request(id);
        if (request.options.skip_reading_prefix_cache) continue;  // it looks nothing up
        pass.started.push_back({id, request.num_prompt, request.num_cached});
      }
      if (!before) return;
      // The manager counts for the whole pass: loads that resumed requests may have had are theirs.
      int64_t num_external = *num_loaded_tokens() - *before;
      for (const int64_t id : output.resumed) num_external -= scheduler.request(id).num_cached;
      pass.num_external = std::max<int64_t>(num_external, 0);
    });
    return pass;
  }
  LessonState state() const override {
    const auto& scheduler = server_.scheduler();
    LessonState state{.num_running = static_cast<int>(std::ssize(scheduler.running())),
                      .num_waiting = static_cast<int>(std::ssize(scheduler.waiting())),
                      .num_blocks_used = static_cast<int>(server_.manager().pool().num_used())};
    if constexpr (kHasStore) add_store(state);
    return state;
  }
  int num_blocks() const override { return server_.manager().pool().num_blocks(); }
  int64_t max_tokens(int64_t limit) const override {
    int64_t fits = 0;
    for (int64_t too_many = limit + 1; too_many - fits > 1;) {
      const int64_t middle = (fits + too_many) / 2;
      (server_.manager().max_blocks(middle) <= num_blocks() ? fits : too_many) = middle;
    }
    return fits;
  }

 private:
  static constexpr bool kHasStore = std::is_same_v<Server, lesson13::Server>;

  void add_store(LessonState& state) const {
    const lesson13::SharedTier& tier = server_.tier();
    const lesson13::SharedMetrics& blocks = tier.metrics();
    state.num_waiting += server_.num_waiting();
    state.num_puts_issued = tier.num_puts_issued();
    state.num_puts_confirmed = tier.num_puts_confirmed();
    state.store_blocks = {{"queried", blocks.num_queried}, {"found", blocks.num_found},
                          {"fetched", blocks.num_fetched}, {"damaged", blocks.num_damaged},
                          {"put", blocks.num_put},         {"not_put", blocks.num_not_put}};
  }
  /// Tokens that requests began with after they had been loaded from the host's memory.
  std::optional<int64_t> num_loaded_tokens() const {
    const auto& manager = server_.manager();
    if constexpr (requires { manager.metrics().num_hits_in_host; }) {
      return manager.metrics().num_hits_in_host * manager.block_size();
    }
    return std::nullopt;
  }

  Server server_;
};

/// Throws UserError if the pool of --num-blocks has no room in the memory.
void check_room(const kv::Model& model, const LessonOptions& options) {
  const auto element = static_cast<int64_t>(size_of(kv::activation_dtype(model.device())));
  const int64_t of_block =
      options.number == 14
          ? lesson14::block_bytes(model.config(), options.block_size, model.config().kv_format)
          : model.config().kv_bytes_per_token(element) * options.block_size;
  const int64_t free = kv::memory_of(model.device()).free;
  if (options.num_blocks <= free / of_block) return;
  kv::user_error("--num-blocks {}: found {} free for blocks of {}, wanted {} or fewer of them",
                 options.num_blocks, kv::human_bytes(free), kv::human_bytes(of_block),
                 kv::with_commas(free / of_block));
}

/// Blocks of all layers: what memory_utilization gives, but not more than max_running of the
/// longest requests can use.
int blocks_for(const kv::Model& model, const LessonOptions& options) {
  if (options.num_blocks > 0) {
    check_room(model, options);
    return options.num_blocks;
  }
  const auto element = static_cast<int64_t>(size_of(kv::activation_dtype(model.device())));
  const int64_t longest =
      options.max_model_len > 0 ? options.max_model_len : model.config().max_position_embeddings;
  const int64_t of_one = (longest + options.block_size - 1) / options.block_size;
  const int fit =
      lesson08::blocks_for_memory(kv::memory_of(model.device()).free, options.memory_utilization,
                                  model.config().kv_bytes_per_token(element) * options.block_size);
  return static_cast<int>(std::min<int64_t>(fit, of_one * options.serve.scheduler.max_running));
}

}  // namespace

std::unique_ptr<LessonServer> make_server(kv::Model& model, const LessonOptions& options) {
  lesson03::PagedOptions paged{.block_size = options.block_size,
                               .num_blocks = blocks_for(model, options)};
  lesson08::ServeOptions serve = options.serve;
  const lesson11::HostTierOptions host{.host_blocks = options.host_blocks};
  const bool fp8 = model.config().kv_format == kv::KvFormat::kFp8;
  switch (options.number == 14 && !fp8 ? 8 : options.number) {
    case 8:
      return std::make_unique<LessonServerOf<lesson08::Server>>(model, paged, serve);
    case 9: {
      static lesson09::NgramDrafter drafter;  // keeps nothing from call to call
      serve.free_order = lesson09::default_serve_options().free_order;
      return std::make_unique<LessonServerOf<lesson09::Server>>(model, drafter, paged, serve);
    }
    case 10: {  // blocks of a group of layers, of the same bytes
      const int per_block = lesson10::layers_per_group(lesson10::make_groups(model.config()));
      paged.num_blocks =
          static_cast<int>(int64_t{paged.num_blocks} * model.config().num_layers / per_block);
      return std::make_unique<LessonServerOf<lesson10::Server>>(model, paged, serve);
    }
    case 11:
      return std::make_unique<LessonServerOf<lesson11::Server>>(model, paged, serve, host);
    case 12:
      return std::make_unique<LessonServerOf<lesson12::Server>>(
          model, paged, serve, lesson12::FileTierOptions{.host = host, .file = options.file});
    case 13: {
      if (options.store == nullptr) kv::user_error("--lesson 13 needs --store");
      lesson13::SharedTierOptions tier = options.tier;
      tier.host.host_blocks = options.host_blocks;
      return std::make_unique<LessonServerOf<lesson13::Server>>(model, paged, serve, tier,
                                                                *options.store);
    }
    case 14: {
      if (options.num_blocks == 0) {
        // A layer in bf16 beside the cache has as many bytes as two layers in FP8.
        const int64_t layers = model.config().num_layers;
        const int64_t room = model.device() == kv::Device::kCuda
                                 ? paged.num_blocks * layers / (layers + 2)
                                 : paged.num_blocks;
        paged.num_blocks =
            lesson14::fp8_blocks_in(static_cast<int>(room), model.config(), paged.block_size);
      }
      return std::make_unique<LessonServerOf<lesson14::Server>>(model, paged, serve);
    }
    default:
      kv::user_error("--lesson {}: wanted 8 to 14, or 0", options.number);
  }
}

}  // namespace serve
