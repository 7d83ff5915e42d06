#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "lessons/03_paged_blocks/paged_kv_cache.h"
#include "parts.h"
#include "qwen3/known_models.h"
#include "swap_blocks.h"
#if KV_HAVE_CUDA
#include <atomic>
#include <chrono>
#include <thread>

#include "copies.h"
#include "kernels/pack_weights.h"
#include "programs/measure_gpu.h"
#endif

namespace bench {
namespace {

using lesson11::BlockMove;
using lesson11::Direction;
using lesson11::HostBlocks;
using lesson11::PagedKvCache;
using lesson11::SwapBlocksArgs;

constexpr int kBlockSize = 16;

std::string name_of(Direction direction) {
  return direction == Direction::kOffload ? "down" : "up";
}

/// Pools of num_blocks blocks, moves between places in no order, and memory in one piece.
struct Pools {
  Pools(kv::Device device, int num_blocks, uint64_t seed)
      : stream(device),
        cache(kv::known_model("Qwen3-0.6B").config, stream, num_blocks, kBlockSize),
        regions(lesson05::regions_of(cache, stream)),
        host(cache.bytes_per_block(), device, num_blocks),
        flat(device, cache.bytes_reserved()),
        moves(num_blocks) {
    std::mt19937_64 rng(seed);
    std::vector<int32_t> ids(moves.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::ranges::shuffle(ids, rng);
    for (size_t i = 0; i < ids.size(); ++i) moves[i].device = ids[i];
    std::ranges::shuffle(ids, rng);
    for (size_t i = 0; i < ids.size(); ++i) moves[i].host = ids[i];
    lesson03::fill_blocks(cache, 0x5A, stream);
    kv::fill_bytes(flat.data(), 0x5A, flat.bytes(), stream);
    stream.synchronize();
    std::memset(host.data(), 0xA5, host.bytes_per_block() * moves.size());
  }

  SwapBlocksArgs first(Direction direction, int num_blocks) {
    return {.regions = &regions,
            .host = &host,
            .direction = direction,
            .moves = std::span(moves).first(num_blocks)};
  }
  double bytes_of(const SwapBlocksArgs& args) const {
    return static_cast<double>(args.moves.size() * host.bytes_per_block());
  }
  /// GB per second of a call, waited for.
  double rate(const SwapBlocksArgs& args, const std::function<void()>& call) const {
    constexpr int kRepeats = 9;
    const double seconds = kv::median_seconds([&] { call(), stream.synchronize(); }, kRepeats);
    return 1e-9 * bytes_of(args) / seconds;
  }

  kv::Stream stream;
  PagedKvCache cache;
  lesson11::BlockRegions regions;
  HostBlocks host;
  kv::DeviceBuffer flat;
  std::vector<BlockMove> moves;
};

kv::Shown gb(double rate) { return kv::decimal(rate, 1); }

void measure_sizes(kv::Lab& lab, Pools& pools, std::initializer_list<int> sizes) {
  const bool cuda = pools.stream.device() == kv::Device::kCuda;
  const auto on_cuda = [&](double rate) { return cuda ? gb(rate) : kv::Shown("-", rate); };
  kv::Records rows;
  for (const Direction direction : {Direction::kOffload, Direction::kLoad}) {
    for (const int num_blocks : sizes) {
      const SwapBlocksArgs args = pools.first(direction, num_blocks);
      const double swap = pools.rate(args, [&] { lesson11::swap_blocks(args, pools.stream); });
      double pieces = 0, batch = 0, flat = 0;
#if KV_HAVE_CUDA
      if (cuda) {
        pieces = pools.rate(args, [&] { copy_pieces(args, pools.stream); });
        batch = pools.rate(args, [&] { copy_batch(args, pools.stream); });
        flat = pools.rate(args, [&] { copy_flat(args, pools.flat, pools.stream); });
      }
#endif
      if (!cuda) {
        const auto bytes = static_cast<size_t>(pools.bytes_of(args));
        void* const host = pools.host.data();
        void* const to = direction == Direction::kOffload ? host : pools.flat.data();
        const void* const from = direction == Direction::kOffload ? pools.flat.data() : host;
        flat = pools.rate(args, [&] { std::memcpy(to, from, bytes); });
      }
      rows.add({{"way", name_of(direction), "way"},
                {"blocks", num_blocks, "blocks"},
                {"bytes", kv::memory(static_cast<int64_t>(pools.bytes_of(args)))},
                {"swap_blocks", gb(swap), "swap_gb_per_second"},
                {"a copy each", on_cuda(pieces), "pieces_gb_per_second"},
                {"copies at once", on_cuda(batch), "batch_gb_per_second"},
                {"one piece", gb(flat), "flat_gb_per_second"},
                {"share", kv::percent(swap, flat)}});
    }
  }
  lab.report_records("sizes", rows);
}

#if KV_HAVE_CUDA

/// The work of a model's pass: it reads its weights (decodes), or multiplies (a prompt).
class Passes {
 public:
  Passes() : stream_(kv::Device::kCuda), x_(kv::Device::kCuda, 2 * kRows * kDepth) {
    weights_.emplace_back(kv::Device::kCuda, size_t{1'200'000'000});  // of Qwen3-0.6B
    std::vector<uint16_t> host(kOut * kDepth);
    std::mt19937 rng(1);
    for (uint16_t& w : host) w = static_cast<uint16_t>(0x3C00 + rng() % 0x300);
    const kv::Matrix matrix{
        .data = host.data(), .dtype = kv::DType::kBF16, .rows = kOut, .cols = kDepth};
    packed_ = kv::pack_weights({&matrix, 1}, kv::PackOrder::kStacked, stream_);
    out_ = kv::DeviceBuffer(kv::Device::kCuda, sizeof(float) * kRows * kOut);
    scratch_ = kv::DeviceBuffer(kv::Device::kCuda,
                                kv::matmul_scratch_bytes(kv::Device::kCuda, kRows, kDepth));
    kv::fill_random(x_, 2, stream_);
    kv::fill_random(weights_[0], 3, stream_);
  }
  double read_seconds() const { return kv::read_seconds(stream_, weights_); }
  double product_seconds() const {
    return kv::graph_seconds(stream_, 32, [&](int) {
      kv::matmul({.x = x_.data(),
                  .num_rows = kRows,
                  .k = kDepth,
                  .weight = {&packed_.matrix, 1},
                  .out = out_.data(),
                  .out_stride = kOut,
                  .scratch = scratch_.data()},
                 stream_);
    });
  }

 private:
  static constexpr int kRows = 2048, kDepth = 1024, kOut = 6144;
  kv::Stream stream_;
  std::vector<kv::DeviceBuffer> weights_;
  kv::PackedWeights packed_;
  kv::DeviceBuffer x_, out_, scratch_;
};

struct Beside {
  double rate = 0;    // GB per second of the copies, meanwhile
  double slower = 0;  // the pass; 0.1 means 10% slower
};

/// A thread copies again and again, while this one measures the pass.
Beside measure_beside(const Pools& pools, double bytes, const std::function<void()>& copy,
                      double alone, const std::function<double()>& pass_seconds) {
  std::atomic<bool> stop = false;
  int batches = 0;
  const auto begin = std::chrono::steady_clock::now();
  std::thread copies([&] {
    for (; !stop; batches += 2) {
      copy();
      copy();
      pools.stream.synchronize();
    }
  });
  const double seconds = pass_seconds();
  stop = true;
  copies.join();
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  return {.rate = 1e-9 * bytes * batches / time.count(), .slower = seconds / alone - 1};
}

void measure_passes(kv::Lab& lab, Pools& pools) {
  constexpr int kBlocks = 128;
  const Passes passes;
  const double read = passes.read_seconds(), product = passes.product_seconds();
  lab.console.print(
      "\nBeside a pass: {} blocks at a time, while weights are read ({:.0f} us) and "
      "multiplied ({:.0f} us)\n\n",
      kBlocks, 1e6 * read, 1e6 * product);
  kv::Records rows;
  for (const Direction direction : {Direction::kOffload, Direction::kLoad}) {
    const auto measure = [&](const std::string& by, const SwapBlocksArgs& args,
                             const std::function<void()>& copy) {
      const double alone = pools.rate(args, copy), bytes = pools.bytes_of(args);
      const Beside reads =
          measure_beside(pools, bytes, copy, read, [&] { return passes.read_seconds(); });
      const Beside products =
          measure_beside(pools, bytes, copy, product, [&] { return passes.product_seconds(); });
      rows.add({{"way", name_of(direction), "way"},
                {"copied by", by, "copied_by"},
                {"alone", gb(alone), "gb_per_second"},
                {"beside reads", gb(reads.rate), "gb_per_second_beside_reads"},
                {"reads slower", kv::percent_of_one(reads.slower), "reads_slower"},
                {"beside products", gb(products.rate), "gb_per_second_beside_products"},
                {"products slower", kv::percent_of_one(products.slower), "products_slower"}});
    };
    SwapBlocksArgs args = pools.first(direction, kBlocks);
    for (const int ctas : {1, 2, 4, 8, 16, 32, 64, 128}) {
      args.max_ctas = ctas;
      measure(kv::count_of(ctas, "CTA"), args, [&] { lesson11::swap_blocks(args, pools.stream); });
    }
    measure("copies at once", args, [&] { copy_batch(args, pools.stream); });
    measure("one piece", args, [&] { copy_flat(args, pools.flat, pools.stream); });
  }
  lab.report_records("passes", rows);
}

#endif

}  // namespace

void measure_swaps(kv::Lab& lab) {
  const kv::Device device = lab.device();
  const bool cuda = device == kv::Device::kCuda;
  Pools pools(device, cuda ? 512 : 64, lab.options.sampling.seed);
  lab.console.print("Blocks of {} tokens of Qwen3-0.6B between {} and the host, GB/s\n\n",
                    kBlockSize, kv::describe(device));
  if (cuda) {
    measure_sizes(lab, pools, {1, 16, 128, 512});
#if KV_HAVE_CUDA
    measure_passes(lab, pools);
#endif
  } else {
    measure_sizes(lab, pools, {1, 16, 64});
  }
  lab.console.print("\n");
}

}  // namespace bench
