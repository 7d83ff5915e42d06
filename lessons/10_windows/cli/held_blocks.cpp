#include "lessons/10_windows/cli/held_blocks.h"

#include <algorithm>
#include <stdexcept>

#include "lessons/10_windows/kv_cache_coordinator.h"

namespace lesson10 {

kv::ModelConfig with_windows(const kv::KnownModel& model) {
  kv::ModelConfig config = model.config;
  const int full = config.num_layers - model.windowed_layers;
  if (model.windowed_layers == 0 || full == 0) return config;
  const int each = config.num_layers / full;
  for (int layer = 0; layer < config.num_layers; ++layer) {
    config.windows.push_back(layer % each == each - 1 ? 0 : model.window);
  }
  return config;
}

HeldBlocks held_blocks(const kv::ModelConfig& config, int num_tokens, int block_size, int chunk) {
  const std::vector<KvCacheGroup> groups = make_groups(config);
  const int64_t bytes_per_layer = int64_t{2} * 2 * block_size * config.kv_width();
  const int64_t bytes_per_block = layers_per_group(groups) * bytes_per_layer;
  const int all = blocks_for(num_tokens, block_size);
  BlockPool pool(all * static_cast<int>(groups.size()), block_size);
  KvCacheCoordinator manager(pool, groups, {.caching = false}, chunk);
  HeldBlocks held{.num_tokens = num_tokens};
  // The last token is a decode: what its query does not see has fallen out.
  for (int done = 0; done < num_tokens;) {
    const int tokens = done < num_tokens - 1 ? std::min(chunk, num_tokens - 1 - done) : 1;
    if (!manager.allocate_slots(0, tokens)) throw std::logic_error("the pool was made for this");
    held.peak = std::max<int64_t>(held.peak, pool.num_used());
    done += tokens;
  }
  held.full = manager.table(0).num_blocks();
  held.sliding = pool.num_used() - held.full;
  held.bytes = (held.full + held.sliding) * bytes_per_block;
  held.all_bytes = int64_t{all} * config.num_layers * bytes_per_layer;
  held.all = held.all_bytes / bytes_per_block;
  return held;
}

}  // namespace lesson10
