// Any bytes as a safetensors file: a UserError of one line, or tensors whose bytes can all be read.
#include "common/error.h"
#include "qwen3/safetensors.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of exactly this size, so that the sanitizer sees a read past its end.
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data),
                                     reinterpret_cast<const std::byte*>(data) + size);
  try {
    const auto tensors = kv::parse_safetensors(bytes, "fuzz.safetensors");
    unsigned sum = 0;
    for (const auto& [name, tensor] : tensors) {
      for (size_t i = 0; i < tensor.bytes; ++i) sum += std::to_integer<unsigned>(tensor.data[i]);
    }
    kv::fuzz::use(sum);
  } catch (const kv::UserError& error) {
    kv::fuzz::check_message(error.what());
  }
  return 0;
}
