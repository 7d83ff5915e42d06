#pragma once

// out[row] = table[token_ids[row]]: the residual stream starts as the tokens' embeddings.

#include "kernels/matmul.h"

namespace kv {

struct EmbeddingArgs {
  const int32_t* token_ids = nullptr;  // [num_rows], on the stream's device, checked by the caller
  int num_rows = 0;
  Matrix table;          // [vocab_size, hidden_size]; on CUDA packed, as it may also be the head
  float* out = nullptr;  // [num_rows, hidden_size]
};

void embedding_cpu(const EmbeddingArgs& args);
void embedding_cuda(const EmbeddingArgs& args, const Stream& stream);
inline void embedding(const EmbeddingArgs& args, const Stream& stream) {
  KV_DISPATCH(embedding, args, stream);
}

}  // namespace kv
