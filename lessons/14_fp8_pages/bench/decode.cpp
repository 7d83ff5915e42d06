#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "fp8_attention.h"
#include "fp8_layer.h"
#include "kernels/round_kv.h"
#include "lessons/03_paged_blocks/block_table.h"
#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "lessons/04_paged_attention/bench/pass.h"
#include "parts.h"
#include "programs/measure_gpu.h"

namespace bench {
namespace {

using lesson03::KvBlocks;
using lesson04::PagedAttentionArgs;

struct NamedCase {
  std::string name;
  Case what;
};

const std::vector<NamedCase>& cases() {
  static const std::vector<NamedCase> all{
      {"64 x 4,096", {same(64, 4096)}},
      {"64 x 4,096 blocks of 256", {same(64, 4096), 256}},
      {"256 x 1,024", {same(256, 1024)}},
      {"16 x 4,096", {same(16, 4096)}},
      {"1 x 32,768", {same(1, 32768)}},
      {"1 x 131,072", {same(1, 131072)}},
      {"4 x 1,024", {same(4, 1024)}},
      {"1 x 1,024", {same(1, 1024)}},
      {"64 x 4,096, 32 heads", {same(64, 4096), 16, 32}},
      {"64 x 4,096, 64 heads", {same(64, 4096), 16, 64}},
      {"64 x 4,096, 2 KV heads", {same(64, 4096), 16, 16, 128, 2}},
      {"64 x 4,096, 4 KV heads", {same(64, 4096), 16, 32, 128, 4}},
      {"64 x 4,096, 16 KV heads", {same(64, 4096), 16, 16, 128, 16}},
      {"64 x 4,096, heads of 64", {same(64, 4096), 16, 16, 64}},
      {"64 x 4,096, heads of 96", {same(64, 4096), 16, 16, 96}},
      {"1 x 1,024, 4 KV heads", {same(1, 1024), 16, 32, 128, 4}},
      {"64 x 4,096, window of 1,024", {same(64, 4096), 16, 16, 128, 8, 1024}}};
  return all;
}

/// One sequence with its last `rows` tokens in the pass.
Case chunk(int rows, int len) {
  Case c{{len}};
  c.rows = {rows};
  return c;
}

/// The same with other heads, or a window.
Case with_heads(Case c, int head_dim, int window) {
  c.head_dim = head_dim;
  c.window = window;
  return c;
}

/// 63 decodes at 4,096 tokens, and a chunk.
Case mixed() {
  Case c{same(64, 4096)};
  c.rows.assign(64, 1);
  c.rows.back() = 512;
  return c;
}

const std::vector<NamedCase>& prefills() {
  static const std::vector<NamedCase> all{
      {"a prompt of 2,048", chunk(2048, 2048)},
      {"a prompt of 8,192", chunk(8192, 8192)},
      {"512 tokens after 7,680", chunk(512, 8192)},
      {"512 after 3,584, and 63 decodes", mixed()},
      {"a prompt of 2,048, heads of 80", with_heads(chunk(2048, 2048), 80, 0)},
      {"a prompt of 8,192, window of 1,024", with_heads(chunk(8192, 8192), 128, 1024)}};
  return all;
}

/// Seconds of one call.
struct Times {
  double read = 0;      // a plain read of the FP8 bytes
  double fp8 = 0;       // attention over FP8 pages
  double in_order = 0;  // the same, and block i of the pool is the i-th that is read
  double wide_read = 0;
  double wide = 0;  // lesson 04's attention, in bf16
};

class Runner {
 public:
  Runner(const Case& c, uint64_t seed) : pass_(c, seed, kv::Device::kCuda) {
    const PagedAttentionArgs args = pass_.args(0);
    const size_t bytes = lesson04::paged_attention_workspace_bytes(args);
    workspace_ = kv::DeviceBuffer(kv::Device::kCuda, std::max<size_t>(bytes, 1));
    kv::fill_bytes(workspace_.data(), 0, workspace_.bytes(), stream());
    make_tables_in_order(args);
    out_bytes_ = static_cast<size_t>(args.num_rows * args.num_heads * c.head_dim) * 2;
    // Copies in FP8 are half as large, so there are twice as many; two have the same content.
    num_wide_ = kv::rotation_for(pass_.bytes());
    const int num_copies = kv::rotation_for(pass_.bytes() / 2);
    for (int i = 0; i < num_copies; ++i) {
      Fp8Layer copy(pass_.args(i % num_wide_).cache, stream());
      layers_.push_back(copy.blocks());
      memory_.push_back(copy.take_memory());
    }
    for (int i = 0; i < num_wide_; ++i) {
      const KvBlocks wide = pass_.args(i).cache;
      kv::round_kv({.kv = {wide.k, wide.v},
                    .num_rows = wide.num_blocks * wide.block_size,
                    .num_kv_heads = wide.num_kv_heads,
                    .head_dim = wide.head_dim},
                   stream());
    }
    stream().synchronize();
  }

  Times run() {
    check_bits();
    const auto times = [&](int copies, const auto& call) {
      return kv::graph_seconds(stream(), copies, call);
    };
    const auto num_copies = static_cast<int>(layers_.size());
    return {.read = kv::read_seconds(stream(), memory_),
            .fp8 = times(num_copies, [&](int i) { attend(fp8_args(i)); }),
            .in_order = times(num_copies,
                              [&](int i) {
                                lesson14::Fp8AttentionArgs args = fp8_args(i);
                                args.block_tables = tables_in_order_.as<const int32_t>();
                                attend(args);
                              }),
            .wide_read = pass_.read_seconds(),
            .wide = times(num_wide_, [&](int i) {
              lesson04::fast_paged_attention(with_workspace(pass_.args(i)), stream());
            })};
  }
  double bytes() const { return static_cast<double>(memory_[0].bytes()); }

  /// Seconds of attention in FP8 and in bf16, of any pass.
  std::pair<double, double> run_both() {
    check_bits();
    return {kv::graph_seconds(stream(), static_cast<int>(layers_.size()),
                              [&](int i) { attend(fp8_args(i)); }),
            kv::graph_seconds(stream(), num_wide_, [&](int i) {
              lesson04::fast_paged_attention(with_workspace(pass_.args(i)), stream());
            })};
  }
  /// Additions and multiplications of the two products.
  double operations() const {
    const Case& c = pass_.of();
    int64_t keys = 0;
    for (size_t i = 0; i < c.seq_lens.size(); ++i) {
      for (int row = 0; row < c.rows_of(i); ++row) {
        const int seen = c.seq_lens[i] - row;
        keys += c.window > 0 ? std::min(seen, c.window) : seen;
      }
    }
    return 4.0 * static_cast<double>(keys) * c.num_heads * c.head_dim;
  }

 private:
  const kv::Stream& stream() const { return pass_.stream(); }

  void make_tables_in_order(const PagedAttentionArgs& args) {
    std::vector<int32_t> tables(
        static_cast<size_t>(args.num_seqs) * static_cast<size_t>(args.max_blocks_per_seq), -1);
    auto row = tables.begin();
    int32_t block = 0;
    for (size_t i = 0; i < pass_.of().seq_lens.size(); ++i) {
      const auto first = row + pass_.of().first_block(i);
      std::iota(first, first + pass_.of().num_blocks(i), block);
      block += pass_.of().num_blocks(i);
      row += args.max_blocks_per_seq;
    }
    tables_in_order_ = kv::to_device<int32_t>(tables, stream());
  }
  PagedAttentionArgs with_workspace(PagedAttentionArgs args) const {
    args.workspace = workspace_.data();
    return args;
  }
  lesson14::Fp8AttentionArgs fp8_args(int copy) const {
    lesson14::Fp8AttentionArgs args{with_workspace(pass_.args(0)), layers_[copy].scales};
    args.cache = layers_[copy];
    return args;
  }
  void attend(const lesson14::Fp8AttentionArgs& args) const {
    lesson14::fast_fp8_attention(args, stream());
  }
  void check_bits() const {
    std::vector<std::byte> found[2];
    for (const bool fp8 : {false, true}) {
      if (fp8) {
        attend(fp8_args(0));
      } else {
        lesson04::fast_paged_attention(with_workspace(pass_.args(0)), stream());
      }
      found[fp8 ? 1 : 0].resize(out_bytes_);
      kv::copy_to_host(found[fp8 ? 1 : 0].data(), pass_.args(0).out, out_bytes_, stream());
      kv::fill_bytes(pass_.args(0).out, 0xFF, out_bytes_, stream());
      stream().synchronize();
    }
    if (found[0] != found[1]) throw std::logic_error("FP8 pages give other bits than lesson 04");
  }

  MeasuredPass pass_;  // in bf16, of numbers that were rounded through e4m3
  kv::DeviceBuffer workspace_, tables_in_order_;
  std::vector<lesson14::Fp8Blocks> layers_;
  std::vector<kv::DeviceBuffer> memory_;  // of layers_
  size_t out_bytes_ = 0;
  int num_wide_ = 0;
};

}  // namespace

void measure_decodes(kv::Lab& lab, const std::string& only) {
  lab.console.print("Attention of a decode step, 16 heads, 8 KV heads of 128, on {}\n",
                    kv::describe(kv::Device::kCuda));
  lab.console.print("share: of a plain read of the same K and V in the same run\n\n");
  kv::Records rows;
  for (const NamedCase& c : cases()) {
    if (kv::interrupted()) break;
    if (c.name.find(only) == std::string::npos) continue;
    Runner runner(c.what, lab.options.sampling.seed);
    const Times t = runner.run();
    const double paging_costs = 100 * (t.fp8 / t.in_order - 1);
    rows.add(
        {{"batch x context", c.name, "case"},
         {"FP8 us", kv::scaled(t.fp8, 1e6, 1), "fp8_seconds"},
         {"GB/s", kv::decimal(runner.bytes() / t.fp8 / 1e9, 0)},
         {"read", kv::scaled(t.read, 1e6, 1), "read_seconds"},
         {"share", kv::percent(t.read, t.fp8)},
         {"paging costs", {fmt::format("{:+.1f} %", paging_costs), t.in_order}, "in_order_seconds"},
         {"bf16 us", kv::scaled(t.wide, 1e6, 1), "wide_seconds"},
         {"share", kv::percent(t.wide_read, t.wide)},
         {"bf16/FP8", kv::decimal(t.wide / t.fp8, 2)}});
    rows.note("bytes", runner.bytes());
    rows.note("wide_read_seconds", t.wide_read);
  }
  lab.report_records("cases", rows);
}

void measure_prefills(kv::Lab& lab, const std::string& only) {
  lab.console.print("\nPasses with more queries\n\n");
  kv::Records rows;
  for (const NamedCase& c : prefills()) {
    if (kv::interrupted()) break;
    if (c.name.find(only) == std::string::npos) continue;
    Runner runner(c.what, lab.options.sampling.seed);
    const auto [fp8, wide] = runner.run_both();
    rows.add({{"pass", c.name, "case"},
              {"FP8 us", kv::scaled(fp8, 1e6, 1), "fp8_seconds"},
              {"TFLOP/s", kv::decimal(runner.operations() / fp8 / 1e12, 0)},
              {"bf16 us", kv::scaled(wide, 1e6, 1), "wide_seconds"},
              {"FP8/bf16", kv::decimal(fp8 / wide, 2)}});
    rows.note("operations", runner.operations());
  }
  lab.report_records("prefills", rows);
  lab.console.print("\nEvery row's result has the bits of lesson 04's kernels in bf16.\n");
}

}  // namespace bench
