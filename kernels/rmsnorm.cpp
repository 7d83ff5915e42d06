#include "kernels/rmsnorm.h"

#include "common/parallel.h"
#include "kernels/cpu_rows.h"

namespace kv {

void rmsnorm_cpu(const RmsNormArgs& args) {
  parallel_for(args.num_rows, 4, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      rmsnorm_row(args.x + row * args.k, args.weight, args.k, args.eps,
                  static_cast<float*>(args.out) + row * args.k);
    }
  });
}

}  // namespace kv
