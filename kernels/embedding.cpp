#include "kernels/embedding.h"

#include <algorithm>

#include "common/parallel.h"

namespace kv {
namespace {

template <typename T>
void copy_rows(const EmbeddingArgs& args) {
  const int64_t k = args.table.cols;
  const T* table = static_cast<const T*>(args.table.data);
  parallel_for(args.num_rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* in = table + args.token_ids[row] * k;
      std::transform(in, in + k, args.out + row * k, [](T x) { return to_float(x); });
    }
  });
}

}  // namespace

void embedding_cpu(const EmbeddingArgs& args) {
  switch (args.table.dtype) {
    case DType::kF32:
      return copy_rows<float>(args);
    case DType::kF16:
      return copy_rows<Half>(args);
    case DType::kBF16:
      return copy_rows<BFloat16>(args);
  }
}

}  // namespace kv
