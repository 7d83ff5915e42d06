#include "paged_loop.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/at_end.h"

namespace lesson03 {
namespace {
constexpr int kNotHere = -1;  // in place of a number of computed tokens
}

void PagedLoop::make_cache(int num_blocks) {
  attention_.reset();
  cache_.reset();  // the old blocks go before the new ones come
  cache_.emplace(model_->config(), model_->stream(), num_blocks, options_.block_size);
  attention_ = make_attention(model_->config(), *cache_);
}

kv::GenerateResult PagedLoop::generate(std::span<const kv::Request> requests,
                                       const kv::TokenCallback& on_token) {
  kv::Generation generation(requests, model_->config(), on_token);
  kv::check_seq_len_limit(requests, options_.engine.max_seq_len);
  kv::GenerateResult result;
  if (requests.empty()) return result;
  kv::PassTimer timer;
  begin(requests);
  std::vector<int> num_computed(requests.size(), kNotHere);  // tokens with K and V
  const auto end_if_here = [&](size_t i) {
    if (std::exchange(num_computed[i], kNotHere) != kNotHere) end(i);
  };
  const kv::AtEnd end_all{[&] {
    for (size_t i = 0; i < requests.size(); ++i) end_if_here(i);
  }};
  const auto start_those = [&](bool waiting) {
    for (size_t i = 0; i < requests.size(); ++i) {
      if (!generation.active(i) || waits(requests, i) != waiting) continue;
      num_computed[i] = start(i, generation.tokens(i));
    }
  };
  start_those(false);
  const int64_t copied_before = attention_->kv_bytes_copied();

  while (generation.any_active()) {
    const kv::PassRows rows = next_rows(generation, num_computed);
    const std::span<const float> logits = model_->forward(rows, *attention_);
    for (size_t i = 0; i < requests.size(); ++i) {
      if (num_computed[i] == kNotHere) continue;
      computed(i, generation.tokens(i).first(static_cast<size_t>(num_computed[i])));
    }
    if (result.passes.empty()) start_those(true);
    const InUse used = in_use();
    result.counters.note_peak("blocks_in_use", used.blocks);
    kv::note_kv_bytes(result.counters, used.blocks * cache_->bytes_per_block(),
                      used.tokens * cache_->bytes_per_token());
    generation.accept(rows, logits);
    for (const size_t i : rows.requests) {
      if (!generation.active(i)) end_if_here(i);  // its blocks serve others now
    }
    timer.end_pass(rows.num_rows(), rows.num_seqs(), result);
  }
  result.counters.kv_bytes_copied = attention_->kv_bytes_copied() - copied_before;
  result.completions = generation.completions();
  return result;
}

/// The tokens that are known and not computed: first the prompts, afterwards one of each.
kv::PassRows PagedLoop::next_rows(const kv::Generation& generation,
                                  std::vector<int>& num_computed) {
  kv::PassRows rows;
  BlockTables tables;
  for (size_t i = 0; i < generation.size(); ++i) {
    if (num_computed[i] == kNotHere) continue;
    const std::span<const int32_t> known = generation.tokens(i);
    const int num_new =
        std::min(static_cast<int>(known.size()) - num_computed[i], max_rows_per_seq());
    const int end = num_computed[i] + num_new;
    tables.push_back(&slots_for(i, end));
    const auto in_pass = known.first(static_cast<size_t>(end));
    rows.add(i, in_pass, num_computed[i], /*wants_logits=*/in_pass.size() == known.size());
    num_computed[i] = end;
  }
  attention_->set_tables(std::move(tables));
  return rows;
}

}  // namespace lesson03
