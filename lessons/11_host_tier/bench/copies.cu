#include "copies.h"

#include <vector>

#include "kernels/launch.cuh"

namespace bench {
namespace {

using kv::cuda_backend::check;
using lesson11::Direction;
using lesson11::SwapBlocksArgs;

/// Calls f(destination, source, bytes) for each block in each region.
template <class F>
void for_each_piece(const SwapBlocksArgs& args, F f) {
  for (const lesson11::BlockMove& move : args.moves) {
    for (const lesson05::Region& region : args.regions->list()) {
      void* const on_device = region.block(move.device);
      void* const in_host = args.host->block(move.host).data() + region.begin;
      const bool down = args.direction == Direction::kOffload;
      f(down ? in_host : on_device, down ? on_device : in_host, static_cast<size_t>(region.bytes));
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
#if CUDART_VERSION < 13000  // a list of copies has other parameters there, or is not there at all
  copy_pieces(args, stream);
#else
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
#endif
}

void copy_flat(const SwapBlocksArgs& args, const kv::DeviceBuffer& flat, const kv::Stream& stream) {
  const size_t bytes = args.moves.size() * args.host->bytes_per_block();
  void* const host = args.host->data();
  void* const to = args.direction == Direction::kOffload ? host : flat.data();
  const void* const from = args.direction == Direction::kOffload ? flat.data() : host;
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream.handle()), "copying in one");
}

}  // namespace bench
