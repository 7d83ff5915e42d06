#pragma once

// The head sizes that the attention kernels are compiled for.

#include <string>
#include <type_traits>

#include "common/error.h"

namespace kv::attention {

/// Calls launch(std::integral_constant<int, head_dim>). Throws UserError for another head_dim.
template <class Launch>
void with_head_dim(int head_dim, const Launch& launch) {
  switch (head_dim) {
    case 32:
      return launch(std::integral_constant<int, 32>{});
    case 64:
      return launch(std::integral_constant<int, 64>{});
    case 80:
      return launch(std::integral_constant<int, 80>{});
    case 96:
      return launch(std::integral_constant<int, 96>{});
    case 128:
      return launch(std::integral_constant<int, 128>{});
    default:
      throw kv::UserError("attention on CUDA: head_dim is " + std::to_string(head_dim) +
                          ", it must be 32, 64, 80, 96 or 128; use --device cpu");
  }
}

}  // namespace kv::attention
