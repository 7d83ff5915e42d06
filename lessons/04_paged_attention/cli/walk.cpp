#include "walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <utility>

#include "common/error.h"
#include "lessons/03_paged_blocks/block_table.h"
#include "lessons/04_paged_attention/fast.h"
#include "lessons/04_paged_attention/paged_cache_attention.h"
#include "qwen3/generation.h"

namespace lesson04 {

using kv::attention::kGroupTiles;
using kv::attention::kGroupTokens;
using kv::attention::kTileTokens;
using kv::attention::Partial;
using kv::attention::Query;
using kv::attention::TileRows;

namespace {

/// The blocks of a sequence's tokens first .. first + num_tokens - 1.
std::vector<int32_t> block_ids_of(const PagedAttentionArgs& args, int seq, int first,
                                  int num_tokens) {
  const int32_t* table = args.block_tables + int64_t{seq} * args.max_blocks_per_seq;
  const int size = args.cache.block_size;
  return {table + first / size, table + (first + num_tokens - 1) / size + 1};
}

/// One query's walk: computes as kv::attention::attend does, and records a step for each tile and
/// group.
class Walker {
 public:
  Walker(const PagedAttentionArgs& args, int seq, int row, int head)
      : args_(args),
        seq_(seq),
        kv_head_(head / (args.num_heads / args.cache.num_kv_heads)),
        query_(kv::attention::query_of(kv::attention::queries_of(args), seq, row, head)) {}

  std::vector<WalkStep> steps() {
    if (query_.num_keys <= 0) return {};
    for (int first = 0; first < query_.num_keys; first += kTileTokens) {
      if (first > 0 && first % kGroupTokens == 0) merge_group();
      add_tile(first);
    }
    merge_group();
    WalkStep& step = add(WalkStep::Kind::kDivide, 0, query_.num_keys);
    step.before = summary_of(result_);
    for (const float sum : step.before.acc) step.out.push_back(sum / result_.l);
    return std::move(steps_);
  }

 private:
  Summary summary_of(const Partial& partial) const {
    return {.m = partial.m, .l = partial.l, .acc = {partial.acc, partial.acc + head_dim()}};
  }
  int head_dim() const { return args_.cache.head_dim; }

  WalkStep& add(WalkStep::Kind kind, int first, int end) {
    const int last_tile = (end - 1) / kTileTokens;
    WalkStep& step = steps_.emplace_back();
    step.kind = kind;
    step.tile = last_tile;
    step.group = last_tile / kGroupTiles;
    step.first_token = first;
    step.num_tokens = end - first;
    step.block_ids = block_ids_of(args_, seq_, first, end - first);
    return step;
  }

  void add_tile(int first) {
    const int num_keys = std::min(kTileTokens, query_.num_keys - first);
    TileRows rows;
    find_paged_rows(args_, seq_, kv_head_, first, num_keys, rows);
    WalkStep& step = add(WalkStep::Kind::kTile, first, first + num_keys);
    step.scores.resize(num_keys);
    step.weights.resize(num_keys);
    if (step.tile % kGroupTiles != 0) step.before = summary_of(group_);
    kv::attention::attend_tile(query_, rows, first, head_dim(),
                               kv::attention::score_scale(head_dim()), group_, step.scores.data(),
                               step.weights.data());
    step.after = summary_of(group_);
  }

  /// The group ends with the tile that was added last.
  void merge_group() {
    const int end = steps_.back().first_token + steps_.back().num_tokens;
    WalkStep& step = add(WalkStep::Kind::kGroup, (end - 1) / kGroupTokens * kGroupTokens, end);
    step.taken = summary_of(group_);
    if (step.group > 0) step.before = summary_of(result_);
    kv::attention::merge(result_, group_, head_dim());
    step.after = summary_of(result_);
    group_ = {};
  }

  const PagedAttentionArgs& args_;
  int seq_;
  int kv_head_;
  Query query_;
  Partial result_, group_;
  std::vector<WalkStep> steps_;
};

/// Attention over one table that walks once, in the layer it is given.
class WalkingAttention : public kv::Attention {
 public:
  WalkingAttention(const kv::Model& model, PagedKvCache& cache, const lesson03::BlockTable& table,
                   int layer, int head)
      : pass_(model.config(), cache.layers()), tables_{&table}, layer_(layer), head_(head) {}

  void begin_pass(const kv::PassRows& rows, kv::PassArrays& arrays) override {
    pass_.begin(rows, tables_, arrays);
    arrays.add(slot_mapping_of(rows, tables_), slot_mapping_);
  }
  kv::KvSlots slots(const kv::AttentionRows& rows, const kv::Stream&) override {
    return pass_.slots(rows.layer, slot_mapping_);
  }
  void forward(const kv::AttentionRows& rows, const kv::Stream& stream) override {
    pass_.attend(rows, stream);
    if (rows.layer == layer_) steps = walk(pass_.args_of(rows), rows.num_rows - 1, head_);
  }

  std::vector<WalkStep> steps;

 private:
  PagedPass pass_;
  BlockTables tables_;
  const int64_t* slot_mapping_ = nullptr;
  int layer_;
  int head_;
};

}  // namespace

std::vector<WalkStep> walk(const PagedAttentionArgs& args, int row, int head) {
  if (row < 0 || row >= args.num_rows || head < 0 || head >= args.num_heads) {
    throw std::out_of_range(
        fmt::format("walk: row {} of {}, head {} of {}", row, args.num_rows, head, args.num_heads));
  }
  check_block_size(args.cache.block_size);
  int seq = 0;
  while (row >= args.first_row[seq + 1]) ++seq;
  return Walker(args, seq, row, head).steps();
}

ModelWalk walk_prompt(kv::Model& model, std::span<const int32_t> prompt, int block_size, int layer,
                      int head) {
  const kv::ModelConfig& config = model.config();
  if (model.device() != kv::Device::kCpu) {
    kv::user_error("the walk runs on the CPU, the model is on {}; ask for --device cpu",
                   kv::name_of(model.device()));
  }
  if (layer < 0 || layer >= config.num_layers) {
    kv::user_error("layer {}: the model has layers 0 to {}", layer, config.num_layers - 1);
  }
  if (head < 0 || head >= config.num_heads) {
    kv::user_error("head {}: the model has query heads 0 to {}", head, config.num_heads - 1);
  }
  kv::Request request;
  request.prompt.assign(prompt.begin(), prompt.end());
  request.max_tokens = 1;
  kv::check_requests({&request, 1}, config);
  if (block_size < 1) kv::user_error("block size {}: wanted at least 1", block_size);

  const auto num_tokens = static_cast<int>(prompt.size());
  ModelWalk result;
  result.block_table.resize(lesson03::blocks_for(num_tokens, block_size));
  for (size_t i = 0; i < result.block_table.size(); ++i) {
    result.block_table[i] = static_cast<int32_t>(i);
  }
  // A shuffle that is the same with every standard library.
  std::mt19937 rng(4);
  for (size_t i = result.block_table.size(); i > 1; --i) {
    std::swap(result.block_table[i - 1], result.block_table[rng() % i]);
  }
  lesson03::BlockTable table(block_size);
  std::ranges::copy(result.block_table, table.extend(num_tokens).begin());

  PagedKvCache cache(config, model.stream(), table.num_blocks(), block_size);
  WalkingAttention attention(model, cache, table, layer, head);
  kv::PassRows rows;
  rows.add(0, prompt, 0);
  model.forward(rows, attention);
  result.steps = std::move(attention.steps);
  return result;
}

bool same_bits(const ModelWalk& a, const ModelWalk& b) {
  return std::ranges::equal(a.steps, b.steps, [](const WalkStep& x, const WalkStep& y) {
    return x.kind == y.kind && x.scores == y.scores && x.weights == y.weights &&
           x.before == y.before && x.taken == y.taken && x.after == y.after && x.out == y.out;
  });
}

}  // namespace lesson04
