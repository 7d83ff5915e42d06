#include "bench_kernels.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <random>

#include "common/base/device.h"
#include "kernels/launch.cuh"
#include "lessons/02_flat_cache/decode_attention.h"
#include "lessons/03_paged_blocks/gather_kv.h"
#include "paged_attention.h"
#include "stream_attention.cuh"

namespace bench {
namespace {

using kv::attention::bf16;
using kv::cuda_backend::check;

constexpr int kHeads = 16, kKvHeads = 8, kHeadDim = 128;
constexpr int64_t kTokenElements = int64_t{kKvHeads} * kHeadDim;

/// Grid: as many CTAs as help. Pseudo-random values in (-1, 1).
__global__ void fill_kernel(bf16* data, int64_t n, uint32_t seed) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761u ^ seed;
    x = (x ^ x >> 15) * 2246822519u;
    x = (x ^ x >> 13) * 3266489917u;
    data[i] = __float2bfloat16(static_cast<float>((x ^ x >> 16) & 0xFFFF) / 32768.0f - 1.0f);
  }
}

/// Grid: as many CTAs as help. Reads 16 bytes per thread, four at a time.
__global__ void __launch_bounds__(512) read_kernel(const uint4* data, int64_t n, uint32_t* sink) {
  uint32_t sum = 0;
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + 3 * stride < n; i += 4 * stride) {
    const uint4 a = data[i], b = data[i + stride], c = data[i + 2 * stride],
                d = data[i + 3 * stride];
    sum ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w;
    sum ^= c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
  }
  for (; i < n; i += stride) {
    const uint4 a = data[i];
    sum ^= a.x ^ a.y ^ a.z ^ a.w;
  }
  if (sum == 0x12345678u) *sink = sum;  // never mind: the reads must not be optimised away
}

/// Median seconds of call(i), i = 0 .. rotation - 1 in one graph.
double seconds_of(const kv::Stream& stream, int rotation, const std::function<void(int)>& call) {
  const cudaStream_t handle = stream.handle();
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  check(cudaStreamBeginCapture(handle, cudaStreamCaptureModeThreadLocal), "beginning a capture");
  for (int i = 0; i < rotation; ++i) call(i);
  check(cudaStreamEndCapture(handle, &graph), "ending a capture");
  check(cudaGraphInstantiate(&replay, graph, 0), "instantiating a graph");
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "creating an event");
  check(cudaEventCreate(&end), "creating an event");
  constexpr int kReplays = 3;
  std::vector<float> milliseconds(16);
  for (float& ms : milliseconds) {
    check(cudaEventRecord(begin, handle), "recording an event");
    for (int i = 0; i < kReplays; ++i) check(cudaGraphLaunch(replay, handle), "replaying a graph");
    check(cudaEventRecord(end, handle), "recording an event");
    stream.synchronize();
    check(cudaEventElapsedTime(&ms, begin, end), "reading an event");
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  std::nth_element(milliseconds.begin() + 1, milliseconds.begin() + 8, milliseconds.end());
  return milliseconds[8] * 1e-3 / (kReplays * rotation);
}

/// K and V of one call, in blocks, and the slabs of the same size.
struct Buffers {
  kv::DeviceBuffer k, v;
};

class Runner {
 public:
  Runner(const Case& c, uint64_t seed) : case_(c) {
    const auto n = static_cast<int>(c.seq_lens.size());
    longest_ = *std::max_element(c.seq_lens.begin(), c.seq_lens.end());
    for (const int len : c.seq_lens) num_blocks_ += (len + c.block_size - 1) / c.block_size;
    max_blocks_ = (longest_ + c.block_size - 1) / c.block_size;
    make_tables(seed);
    std::vector<int32_t> rows(static_cast<size_t>(n) + 1);
    std::iota(rows.begin(), rows.end(), 0);
    first_row_ = kv::to_device<int32_t>(rows, stream_);
    seq_len_ = kv::to_device<int32_t>(c.seq_lens, stream_);
    q_ = kv::DeviceBuffer(kv::Device::kCuda, static_cast<size_t>(n) * kHeads * kHeadDim * 2);
    out_ = kv::DeviceBuffer(kv::Device::kCuda, q_.bytes());
    fill(q_, static_cast<uint32_t>(seed));
    constexpr double kFarMoreThanL2 = 400e6;
    const int rotation = std::clamp(static_cast<int>(kFarMoreThanL2 / bytes_of(c)), 1, 16);
    const auto bytes = static_cast<size_t>(num_blocks_ * c.block_size * kTokenElements * 2);
    for (int i = 0; i < rotation; ++i) {
      buffers_.push_back(
          {kv::DeviceBuffer(kv::Device::kCuda, bytes), kv::DeviceBuffer(kv::Device::kCuda, bytes)});
      fill(buffers_.back().k, static_cast<uint32_t>(seed + 2 * i + 1));
      fill(buffers_.back().v, static_cast<uint32_t>(seed + 2 * i + 2));
    }
    make_workspace();
  }

  Times run() {
    const auto time = [&](const std::function<void(int)>& call) {
      return seconds_of(stream_, static_cast<int>(buffers_.size()), call);
    };
    Times times;
    times.read = 1e9;
    for (const int ctas : {264, 528, 1056, 2112}) {
      times.read = std::min(times.read, time([&](int i) { read(i, ctas); }));
    }
    times.paged = time([&](int i) { paged(i); });
    times.contiguous = time([&](int i) { contiguous(i); });
    times.lesson02 = time([&](int i) { flat(buffers_[static_cast<size_t>(i)]); });
    times.gathered = time([&](int i) { gathered(i); });
    return times;
  }

 private:
  void fill(const kv::DeviceBuffer& buffer, uint32_t seed) {
    fill_kernel<<<1024, 256, 0, stream_.handle()>>>(buffer.as<bf16>(),
                                                    static_cast<int64_t>(buffer.bytes() / 2), seed);
    check(cudaGetLastError(), "filling a buffer");
  }

  void make_tables(uint64_t seed) {
    std::vector<int32_t> ids(static_cast<size_t>(num_blocks_));
    std::iota(ids.begin(), ids.end(), 0);
    std::mt19937_64 rng(seed);
    std::shuffle(ids.begin(), ids.end(), rng);
    std::vector<int32_t> tables(case_.seq_lens.size() * static_cast<size_t>(max_blocks_), -1);
    std::vector<int64_t> begins;
    auto id = ids.begin();
    auto row = tables.begin();
    int64_t begin = 0;
    for (const int len : case_.seq_lens) {
      const int blocks = (len + case_.block_size - 1) / case_.block_size;
      std::copy_n(id, blocks, row);
      id += blocks;
      row += max_blocks_;
      begins.push_back(begin);
      begin += int64_t{blocks} * case_.block_size;
    }
    tables_ = kv::to_device<int32_t>(tables, stream_);
    begins_ = kv::to_device<int64_t>(begins, stream_);
  }

  void make_workspace() {
    const size_t bytes =
        std::max(lesson04::paged_attention_workspace_bytes(paged_args(0)),
                 lesson02::decode_attention_workspace_bytes(flat_args(buffers_[0])));
    workspace_ = kv::DeviceBuffer(kv::Device::kCuda, std::max<size_t>(bytes, 1));
    kv::fill_bytes(workspace_.data(), 0, workspace_.bytes(), stream_);
    gathered_ = {kv::DeviceBuffer(kv::Device::kCuda, buffers_[0].k.bytes()),
                 kv::DeviceBuffer(kv::Device::kCuda, buffers_[0].v.bytes())};
  }

  lesson04::PagedAttentionArgs paged_args(int i) const {
    const Buffers& b = buffers_[static_cast<size_t>(i)];
    const auto n = static_cast<int>(case_.seq_lens.size());
    return {.q = q_.data(),
            .out = out_.data(),
            .cache = {.k = b.k.data(),
                      .v = b.v.data(),
                      .num_blocks = static_cast<int>(num_blocks_),
                      .block_size = case_.block_size,
                      .num_kv_heads = kKvHeads,
                      .head_dim = kHeadDim},
            .first_row = first_row_.as<const int32_t>(),
            .seq_len = seq_len_.as<const int32_t>(),
            .block_tables = tables_.as<const int32_t>(),
            .max_blocks_per_seq = max_blocks_,
            .num_seqs = n,
            .num_rows = n,
            .max_rows_per_seq = 1,
            .max_seq_len = longest_,
            .num_heads = kHeads,
            .workspace = workspace_.data()};
  }
  lesson02::DecodeAttentionArgs flat_args(const Buffers& b) const {
    const auto n = static_cast<int>(case_.seq_lens.size());
    return {.q = q_.data(),
            .k_cache = b.k.data(),
            .v_cache = b.v.data(),
            .out = out_.data(),
            .first_row = first_row_.as<const int32_t>(),
            .seq_len = seq_len_.as<const int32_t>(),
            .slab_begin = begins_.as<const int64_t>(),
            .num_seqs = n,
            .num_rows = n,
            .max_rows_per_seq = 1,
            .max_seq_len = longest_,
            .num_heads = kHeads,
            .num_kv_heads = kKvHeads,
            .head_dim = kHeadDim,
            .workspace = workspace_.data()};
  }

  void read(int i, int ctas) {
    for (const kv::DeviceBuffer* buffer :
         {&buffers_[static_cast<size_t>(i)].k, &buffers_[static_cast<size_t>(i)].v}) {
      read_kernel<<<ctas, 512, 0, stream_.handle()>>>(buffer->as<const uint4>(),
                                                      static_cast<int64_t>(buffer->bytes() / 16),
                                                      out_.as<uint32_t>());
    }
  }
  void paged(int i) { lesson04::fast_paged_attention_cuda(paged_args(i), stream_); }
  /// The kernel that the paged pass takes, over slabs. For little work that is lesson 02's.
  void contiguous(int i) {
    const Buffers& b = buffers_[static_cast<size_t>(i)];
    const lesson04::PagedPlan plan(paged_args(i));
    if (plan.kernel == lesson04::PagedPlan::Kernel::kSpread) return flat(b);
    const kv::attention::AttentionPass pass{.q = q_.as<const bf16>(),
                                            .out = out_.as<bf16>(),
                                            .first_row = first_row_.as<const int32_t>(),
                                            .seq_len = seq_len_.as<const int32_t>(),
                                            .num_heads = kHeads,
                                            .num_kv_heads = kKvHeads,
                                            .head_dim = kHeadDim};
    const lesson04::ContiguousCache cache{.k = b.k.as<const bf16>(),
                                          .v = b.v.as<const bf16>(),
                                          .slab_begin = begins_.as<const int64_t>(),
                                          .num_kv_heads = kKvHeads,
                                          .head_dim = kHeadDim};
    lesson04::launch_stream_queries<kHeadDim>(
        pass, cache, plan, static_cast<int>(case_.seq_lens.size()), workspace_.data(), stream_);
  }
  void flat(const Buffers& b) { lesson02::fast_decode_attention_cuda(flat_args(b), stream_); }
  void gathered(int i) {
    lesson03::gather_kv_cuda({.cache = paged_args(i).cache,
                              .block_tables = tables_.as<const int32_t>(),
                              .seq_len = seq_len_.as<const int32_t>(),
                              .out_begin = begins_.as<const int64_t>(),
                              .max_blocks_per_seq = max_blocks_,
                              .num_seqs = static_cast<int>(case_.seq_lens.size()),
                              .max_seq_len = longest_,
                              .k_out = gathered_.k.data(),
                              .v_out = gathered_.v.data()},
                             stream_);
    lesson02::DecodeAttentionArgs args = flat_args(gathered_);
    args.all_rows_are_new = true;
    lesson02::fast_decode_attention_cuda(args, stream_);
  }

  Case case_;
  kv::Stream stream_{kv::Device::kCuda};
  int64_t num_blocks_ = 0;
  int max_blocks_ = 0;
  int longest_ = 0;
  std::vector<Buffers> buffers_;
  Buffers gathered_;
  kv::DeviceBuffer q_, out_, first_row_, seq_len_, tables_, begins_, workspace_;
};

}  // namespace

double bytes_of(const Case& c) {
  const int64_t tokens = std::accumulate(c.seq_lens.begin(), c.seq_lens.end(), int64_t{0});
  return static_cast<double>(2 * tokens * kTokenElements * 2);
}

Times measure_on_gpu(const Case& c, uint64_t seed) { return Runner(c, seed).run(); }

}  // namespace bench
