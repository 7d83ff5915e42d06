// Any bytes as a config.json: a UserError of one line, or a shape that the model can work with.
#include "common/base/error.h"
#include "common/model/config.h"
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
  return 0;
}
