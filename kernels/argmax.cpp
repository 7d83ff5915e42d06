#include "kernels/argmax.h"

#include "common/parallel.h"

namespace kv {

void argmax_cpu(const ArgmaxArgs& args) {
  parallel_for(args.num_rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float* logits = args.logits + row * args.vocab_size;
      int best = 0;
      for (int i = 1; i < args.vocab_size; ++i) {
        // A NaN loses against every number, so that it cannot hide the answer.
        if (logits[i] > logits[best] || (logits[best] != logits[best] && logits[i] == logits[i])) {
          best = i;
        }
      }
      args.out[row] = best;
    }
  });
}

}  // namespace kv
