// Any bytes as a config.json: a UserError of one line, or a shape that can be worked with, the
// model's own and that of a model whose K and V alone are planned.
#include "common/error.h"
#include "qwen3/config.h"
#include "qwen3/kv_layout.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const kv::ModelConfig c = kv::parse_config(kv::fuzz::text(data, size), "config.json");
    kv::fuzz::require(c.vocab_size > 0 && c.hidden_size > 0 && c.intermediate_size > 0);
    kv::fuzz::require(c.num_layers > 0 && c.num_heads > 0 && c.num_kv_heads > 0 && c.head_dim > 0);
    kv::fuzz::require(c.num_heads % c.num_kv_heads == 0 && c.head_dim % 2 == 0);
    kv::fuzz::require(c.qkv_width() > 0 && c.kv_bytes_per_token(4) > 0);
    kv::fuzz::require(c.rope_theta > 0 && c.rms_norm_eps >= 0 && c.max_position_embeddings > 0);
    for (const int32_t id : c.eos_token_ids) kv::fuzz::require(id >= 0);
  } catch (const kv::UserError& error) {
    kv::fuzz::check_message(error.what());
  }
  try {
    const kv::KvLayout layout = kv::parse_kv_layout(kv::fuzz::text(data, size), "config.json");
    kv::fuzz::require(layout.num_layers() > 0 && layout.bytes_per_layer(2) > 0);
    for (const int64_t seq_len : {1, 1 << 28}) {
      kv::fuzz::require(layout.bytes_per_sequence(seq_len, 16, 2) > 0);
      const double waste = layout.mean_waste(seq_len, 16);
      kv::fuzz::require(waste >= 0 && waste < 1);
    }
  } catch (const kv::UserError& error) {
    kv::fuzz::check_message(error.what());
  }
  return 0;
}
