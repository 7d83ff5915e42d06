// Cost of paging in the attention of a decode step. Reading through the block table is compared
// with reading slabs, with gathering first, and with a plain read of the same bytes.
//
//   lesson04_bench [--device NAME] [--only TEXT] [--seed N] [--json FILE]

#include <algorithm>
#include <string>
#include <vector>

#include "fast.h"
#include "kernels/hopper/plan.h"
#include "lessons/02_flat_cache/decode_attention.h"
#include "lessons/03_paged_blocks/block_table.h"
#include "pass.h"
#include "programs/lab.h"

namespace {

struct NamedCase {
  std::string name;
  bench::Case what;
};

/// n lengths from 100 to 1,024: a busy server.
std::vector<int> busy(int n) {
  std::vector<int> lens;
  for (int i = 0; i < n; ++i) lens.push_back(100 + i * 37 % n * 924 / (n - 1));
  return lens;
}

/// Lengths between 512 and 7,680 that add up to n * 4,096.
std::vector<int> uneven(int n) {
  std::vector<int> lens;
  for (int i = 0; i < n / 2; ++i) {
    const int shorter = 512 + i * 3584 / (n / 2);
    lens.push_back(shorter);
    lens.push_back(8192 - shorter);
  }
  return lens;
}

std::vector<NamedCase> cases_on(kv::Device device) {
  using bench::same;
  if (device == kv::Device::kCpu) {
    return {{"8 x 1,024", {same(8, 1024), 16}},
            {"8 x 1,024 blocks of 1", {same(8, 1024), 1}},
            {"8 x 1,024 blocks of 256", {same(8, 1024), 256}},
            {"1 x 8,192", {same(1, 8192), 16}}};
  }
  return {{"64 x 4,096", {same(64, 4096)}},
          {"64 x 4,096 blocks of 1", {same(64, 4096), 1}},
          {"64 x 4,096 blocks of 256", {same(64, 4096), 256}},
          {"64 uneven, 4,096 on average", {uneven(64)}},
          {"256 x 1,024", {same(256, 1024)}},
          {"256 of 100 to 1,024", {busy(256)}},
          {"32 of 100 to 1,024", {busy(32)}},
          {"16 x 4,096", {same(16, 4096)}},
          {"1 x 32,768", {same(1, 32768)}},
          {"1 x 131,072", {same(1, 131072)}},
          {"4 x 1,024", {same(4, 1024)}},
          {"1 x 1,024", {same(1, 1024)}},
          {"64 x 4,096, 8 heads", {same(64, 4096), 16, 8}},
          {"64 x 4,096, 32 heads", {same(64, 4096), 16, 32}},
          {"64 x 4,096, 64 heads", {same(64, 4096), 16, 64}},
          {"64 uneven, 32 heads", {uneven(64), 16, 32}},
          {"64 uneven, 64 heads", {uneven(64), 16, 64}},
          {"64 x 4,096, heads of 64", {same(64, 4096), 16, 16, 64}},
          {"64 x 4,096, heads of 80", {same(64, 4096), 16, 16, 80}},
          {"64 x 4,096, heads of 96", {same(64, 4096), 16, 16, 96}},
          {"64 x 4,096, 2 KV heads", {same(64, 4096), 16, 16, 128, 2}},
          {"64 x 4,096, 4 KV heads", {same(64, 4096), 16, 32, 128, 4}},
          {"64 x 4,096, 16 KV heads", {same(64, 4096), 16, 16, 128, 16}},
          {"64 x 4,096, window of 1,024", {same(64, 4096), 16, 16, 128, 8, 1024}},
          {"16 x 4,096, window of 1,024", {same(16, 4096), 16, 16, 128, 8, 1024}},
          {"1 x 32,768, window of 1,024", {same(1, 32768), 16, 16, 128, 8, 1024}}};
}

/// Seconds of one call.
struct Times {
  double read = 0;        // a plain read of the same bytes: the ceiling
  double paged = 0;       // paged_attention
  double contiguous = 0;  // decode_attention: the same kernel over slabs
  double gathered = 0;    // gather_kv, then decode_attention: lesson 03. 0: it knows no window
};

/// The same pass three ways. The pool's memory serves as slabs, too: a sequence after the other.
class Runner {
 public:
  Runner(const bench::Case& c, uint64_t seed, kv::Device device) : pass_(c, seed, device) {
    std::vector<int64_t> begins;
    int64_t rows = 0;
    for (size_t i = 0; i < c.seq_lens.size(); ++i) {
      begins.push_back(rows - int64_t{c.first_block(i)} * c.block_size);  // token 0's row
      rows += int64_t{c.num_blocks(i)} * c.block_size;
    }
    begins_ = kv::to_device<int64_t>(begins, stream());
    const size_t bytes =
        std::max(lesson04::paged_attention_workspace_bytes(args(0)),
                 lesson02::decode_attention_workspace_bytes(flat_args(nullptr, nullptr)));
    workspace_ = kv::DeviceBuffer(device, std::max<size_t>(bytes, 1));
    kv::fill_bytes(workspace_.data(), 0, workspace_.bytes(), stream());
    const size_t out_bytes = static_cast<size_t>(rows * c.num_kv_heads * c.head_dim) *
                             size_of(kv::activation_dtype(device));
    k_out_ = kv::DeviceBuffer(device, out_bytes);
    v_out_ = kv::DeviceBuffer(device, out_bytes);
  }

  Times run() {
    return {.read = pass_.read_seconds(),
            .paged =
                pass_.seconds_of([&](int i) { lesson04::fast_paged_attention(args(i), stream()); }),
            .contiguous =
                pass_.seconds_of([&](int i) { attend_flat(args(i).cache.k, args(i).cache.v); }),
            .gathered = gathered_seconds()};
  }

  double bytes() const { return pass_.bytes(); }
  /// Which kernel serves the pass.
  std::string kernel() const {
    if (stream().device() == kv::Device::kCpu) return "CPU";
    const bool hopper = kv::describe(stream().device()).find("sm_90") != std::string::npos;
    return kv::hopper::kernel_of(kv::attention::queries_of(args(0)), pass_.of().block_size, hopper);
  }

 private:
  const kv::Stream& stream() const { return pass_.stream(); }
  lesson04::PagedAttentionArgs args(int copy) const {
    lesson04::PagedAttentionArgs args = pass_.args(copy);
    args.workspace = workspace_.data();
    return args;
  }
  lesson02::DecodeAttentionArgs flat_args(const void* k, const void* v) const {
    const lesson04::PagedAttentionArgs paged = args(0);
    return {.q = paged.q,
            .k_cache = k,
            .v_cache = v,
            .out = paged.out,
            .first_row = paged.first_row,
            .seq_len = paged.seq_len,
            .slab_begin = begins_.as<const int64_t>(),
            .num_slots = int64_t{paged.cache.num_blocks} * paged.cache.block_size,
            .num_seqs = paged.num_seqs,
            .num_rows = paged.num_rows,
            .max_rows_per_seq = 1,
            .max_seq_len = paged.max_seq_len,
            .num_heads = paged.num_heads,
            .num_kv_heads = pass_.of().num_kv_heads,
            .head_dim = pass_.of().head_dim,
            .window = pass_.of().window,
            .workspace = workspace_.data()};
  }
  void attend_flat(const void* k, const void* v) {
    lesson02::fast_decode_attention(flat_args(k, v), stream());
  }
  double gathered_seconds() {
    if (pass_.of().window > 0) return 0;
    return pass_.seconds_of([&](int i) {
      gather(args(i));
      attend_flat(k_out_.data(), v_out_.data());
    });
  }
  void gather(const lesson04::PagedAttentionArgs& args) {
    lesson03::gather_kv({.cache = args.cache,
                         .block_tables = args.block_tables,
                         .seq_len = args.seq_len,
                         .out_begin = begins_.as<const int64_t>(),
                         .max_blocks_per_seq = args.max_blocks_per_seq,
                         .num_seqs = args.num_seqs,
                         .max_seq_len = args.max_seq_len,
                         .k_out = k_out_.data(),
                         .v_out = v_out_.data()},
                        stream());
  }

  bench::MeasuredPass pass_;
  kv::DeviceBuffer begins_, workspace_, k_out_, v_out_;
};

void run(kv::Lab& lab, const std::string& only) {
  const kv::Device device = lab.device();
  lab.console.print("Attention of a decode step, 16 heads, 8 KV heads of 128, on {}\n",
                    kv::describe(device));
  lab.console.print("share: of a plain read of the same K and V in the same run\n\n");
  kv::Records rows;
  for (const NamedCase& c : cases_on(device)) {
    if (kv::interrupted()) break;
    if (c.name.find(only) == std::string::npos) continue;
    Runner runner(c.what, lab.options.sampling.seed, device);
    const Times t = runner.run();
    const auto us = [](double seconds) { return kv::scaled(seconds, 1e6, 1); };
    std::vector<kv::Field> row{
        {"batch x context", c.name, "case"},
        {"kernel", runner.kernel(), "kernel"},
        {"us", us(t.paged), "paged_seconds"},
        {"GB/s", kv::decimal(runner.bytes() / t.paged / 1e9, 0)},
        {"share", kv::percent(t.read, t.paged)},
        {"slabs", us(t.contiguous), "contiguous_seconds"},
        {"paging costs", fmt::format("{:+.1f} %", 100 * (t.paged / t.contiguous - 1))},
        {"gather first", t.gathered == 0 ? kv::Shown("-", 0.0) : us(t.gathered),
         "gathered_seconds"}};
    if (device == kv::Device::kCuda) row.insert(row.begin() + 4, {"read", us(t.read)});
    rows.add(row);
    rows.note("read_seconds", t.read);
    rows.note("heads", c.what.num_heads);
    rows.note("kv_heads", c.what.num_kv_heads);
    rows.note("bytes", runner.bytes());
  }
  lab.report_records("cases", rows);
}

}  // namespace

int main(int argc, char** argv) {
  kv::GenerateOptions options;
  kv::CommandLine command(
      "Lesson 04: reading K and V through block tables, against slabs and a plain read.");
  command.value("--device NAME", options.device, "cpu, cuda, or auto: CUDA if there is one")
      .one_of({"cpu", "cuda", "auto"});
  std::string only;
  command.value("--only TEXT", only, "only the cases that have this in their names");
  kv::add_seed_option(command, options, "of the blocks' order and of the data");
  kv::add_json_option(command, options);
  return kv::run_bench("04", command, options, argc, argv, [&](kv::Lab& lab) { run(lab, only); });
}
