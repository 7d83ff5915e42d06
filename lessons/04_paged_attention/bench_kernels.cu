#include "bench_kernels.h"

#include <algorithm>
#include <functional>

#include "common/program/measure_gpu.h"
#include "lessons/02_flat_cache/decode_attention.h"
#include "lessons/03_paged_blocks/block_table.h"
#include "lessons/03_paged_blocks/gather_kv.h"
#include "paged_attention.h"

namespace bench {
namespace {

constexpr int kHeads = 16;

/// K and V of one call: blocks, or slabs of the same size.
struct KeysAndValues {
  void *k, *v;
};

class Runner {
 public:
  Runner(const Case& c, uint64_t seed) : pass_(c, seed) {
    std::vector<int64_t> begins;
    int64_t begin = 0;
    for (const int len : c.seq_lens) {
      begins.push_back(begin);
      begin += int64_t{lesson03::blocks_for(len, c.block_size)} * c.block_size;
    }
    begins_ = kv::to_device<int64_t>(begins, stream());
    const size_t bytes = std::max(lesson04::paged_attention_workspace_bytes(paged_args(0)),
                                  lesson02::decode_attention_workspace_bytes(flat_args(slabs(0))));
    workspace_ = kv::DeviceBuffer(kv::Device::kCuda, std::max<size_t>(bytes, 1));
    kv::fill_bytes(workspace_.data(), 0, workspace_.bytes(), stream());
    const size_t gathered_bytes =
        static_cast<size_t>(begin) * kKvHeads * kHeadDim * sizeof(uint16_t);
    k_out_ = kv::DeviceBuffer(kv::Device::kCuda, gathered_bytes);
    v_out_ = kv::DeviceBuffer(kv::Device::kCuda, gathered_bytes);
  }

  Times run() {
    const auto time = [&](const std::function<void(int)>& call) {
      return kv::graph_seconds(stream(), pass_.num_copies(), call);
    };
    return {.read = pass_.read_seconds(),
            .paged = time([&](int i) { paged(i); }),
            .contiguous = time([&](int i) { flat(slabs(i)); }),
            .gathered = time([&](int i) { gathered(i); })};
  }

 private:
  const kv::Stream& stream() const { return pass_.stream(); }
  KeysAndValues slabs(int i) const { return {pass_.args(i).cache.k, pass_.args(i).cache.v}; }
  lesson04::PagedAttentionArgs paged_args(int i) const {
    lesson04::PagedAttentionArgs args = pass_.args(i);
    args.workspace = workspace_.data();
    return args;
  }
  lesson02::DecodeAttentionArgs flat_args(const KeysAndValues& cache) const {
    const lesson04::PagedAttentionArgs args = paged_args(0);
    return {.q = args.q,
            .k_cache = cache.k,
            .v_cache = cache.v,
            .out = args.out,
            .first_row = args.first_row,
            .seq_len = args.seq_len,
            .slab_begin = begins_.as<const int64_t>(),
            .num_seqs = args.num_seqs,
            .num_rows = args.num_rows,
            .max_rows_per_seq = 1,
            .max_seq_len = args.max_seq_len,
            .num_heads = kHeads,
            .num_kv_heads = kKvHeads,
            .head_dim = kHeadDim,
            .workspace = workspace_.data()};
  }

  void paged(int i) { lesson04::fast_paged_attention_cuda(paged_args(i), stream()); }
  void flat(const KeysAndValues& cache) {
    lesson02::fast_decode_attention_cuda(flat_args(cache), stream());
  }
  void gathered(int i) {
    const lesson04::PagedAttentionArgs args = paged_args(i);
    lesson03::gather_kv_cuda({.cache = args.cache,
                              .block_tables = args.block_tables,
                              .seq_len = args.seq_len,
                              .out_begin = begins_.as<const int64_t>(),
                              .max_blocks_per_seq = args.max_blocks_per_seq,
                              .num_seqs = args.num_seqs,
                              .max_seq_len = args.max_seq_len,
                              .k_out = k_out_.data(),
                              .v_out = v_out_.data()},
                             stream());
    flat({k_out_.data(), v_out_.data()});
  }

  DecodePass pass_;
  kv::DeviceBuffer begins_, workspace_, k_out_, v_out_;
};

}  // namespace

Times measure_on_gpu(const Case& c, uint64_t seed) { return Runner(c, seed).run(); }

}  // namespace bench
