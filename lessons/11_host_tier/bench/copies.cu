#include "copies.h"

#include <vector>

#include "kernels/launch.cuh"

namespace bench {
namespace {

using kv::cuda_backend::check;
using lesson11::SwapBlocksArgs;
using lesson11::Way;

/// Calls f(destination, source, bytes) for each piece.
template <class F>
void for_each_piece(const SwapBlocksArgs& args, F f) {
  const int num_layers = args.cache->num_layers();
  const size_t bytes = args.host->bytes_per_block() / static_cast<size_t>(2 * num_layers);
  for (const lesson11::BlockMove& move : args.moves) {
    std::byte* in_host = args.host->block(move.host).data();
    for (int layer = 0; layer < num_layers; ++layer) {
      for (const int i : {0, 1}) {
        void* const on_device = args.cache->layer(layer).piece(move.device, i).data;
        if (args.way == Way::kOffload) {
          f(in_host, on_device, bytes);
        } else {
          f(on_device, in_host, bytes);
        }
        in_host += bytes;
      }
    }
  }
}

}  // namespace

void copy_pieces(const SwapBlocksArgs& args, const kv::Stream& stream) {
  for_each_piece(args, [&](void* to, const void* from, size_t bytes) {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.handle()), "copying a piece");
  });
}

void copy_batch(const SwapBlocksArgs& args, const kv::Stream& stream) {
  std::vector<void*> to;
  std::vector<const void*> from;
  std::vector<size_t> sizes;
  for_each_piece(args, [&](void* destination, const void* source, size_t bytes) {
    to.push_back(destination);
    from.push_back(source);
    sizes.push_back(bytes);
  });
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
  size_t first = 0;
  check(cudaMemcpyBatchAsync(to.data(), from.data(), sizes.data(), sizes.size(), &attributes,
                             &first, 1, stream.handle()),
        "copying a batch");
}

void copy_flat(const SwapBlocksArgs& args, const kv::DeviceBuffer& flat, const kv::Stream& stream) {
  const size_t bytes = args.moves.size() * args.host->bytes_per_block();
  void* const host = args.host->data();
  void* const to = args.way == Way::kOffload ? host : flat.data();
  const void* const from = args.way == Way::kOffload ? flat.data() : host;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.handle()), "copying in one");
}

}  // namespace bench
