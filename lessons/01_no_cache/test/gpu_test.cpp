// causal_attention on CUDA.

#include <doctest/doctest.h>

#include <string>

#include "causal_attention.h"
#include "common/error.h"

constexpr auto kDevice = kv::Device::kCuda;
#include "attention_cases.h"

TEST_CASE("a head_dim without a kernel is refused by name") {
  const kv::Stream stream(kDevice);
  for (const int head_dim : {16, 48, 112, 256}) {
    const lesson01::CausalAttentionArgs args{.num_seqs = 1,
                                             .num_rows = 1,
                                             .max_seq_len = 1,
                                             .num_heads = 1,
                                             .num_kv_heads = 1,
                                             .head_dim = head_dim};
    const std::string wanted = "attention on CUDA: head_dim is " + std::to_string(head_dim) +
                               ", it must be 32, 64, 80, 96 or 128; use --device cpu";
    for (const auto attention : {lesson01::causal_attention, lesson01::fast_causal_attention}) {
      CHECK_THROWS_WITH_AS(attention(args, stream), wanted.c_str(), kv::UserError);
    }
  }
}

TEST_CASE("a pass without rows launches nothing") {
  const kv::Stream stream(kDevice);
  lesson01::causal_attention({.head_dim = 128}, stream);
  lesson01::fast_causal_attention({.head_dim = 128}, stream);
  stream.synchronize();
}
