#include "qwen3/fingerprint.h"

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "common/device.h"
#include "common/hash.h"

namespace kv {
namespace {

/// Grows with every change of the arithmetic that gives K or V other bits: a change of the digests
/// in tests/ladder adds 1 here.
constexpr uint64_t kArithmetic = 4;

/// A digest of the C library's functions that K and V depend on, at a few hundred places. They give
/// the angles of the rotations, and e^x in the plain kernels of the CPU. The fast ones have an e^x
/// of their own, and everything else is additions, products and roots, which every machine rounds
/// alike. Another library may round a last bit differently.
uint64_t library_digest() {
  std::vector<uint64_t> bits;
  for (int i = 0; i < 256; ++i) {
    const double angle = 0.37 * i;
    bits.push_back(std::bit_cast<uint64_t>(std::cos(angle)));
    bits.push_back(std::bit_cast<uint64_t>(std::sin(angle)));
    bits.push_back(std::bit_cast<uint64_t>(std::pow(1e6, -i / 256.0)));
    bits.push_back(std::bit_cast<uint32_t>(std::exp(-0.07f * static_cast<float>(i))));
  }
  return xxh64_of(std::span<const uint64_t>(bits));
}

uint64_t number(int value) { return static_cast<uint64_t>(value); }

}  // namespace

uint64_t fingerprint_of(const Model& model, KvFormat pages) {
  const ModelConfig& c = model.config();
  std::vector<uint64_t> parts = {kArithmetic,
                                 number(c.vocab_size),
                                 number(c.hidden_size),
                                 number(c.intermediate_size),
                                 number(c.num_layers),
                                 number(c.num_heads),
                                 number(c.num_kv_heads),
                                 number(c.head_dim),
                                 std::bit_cast<uint32_t>(c.rms_norm_eps),
                                 std::bit_cast<uint64_t>(c.rope_theta)};
  for (int layer = 0; layer < c.num_layers; ++layer) parts.push_back(number(c.window_of(layer)));
  const Device device = model.device();
  parts.push_back(static_cast<uint64_t>(device));
  parts.push_back(static_cast<uint64_t>(activation_dtype(device)));
  parts.push_back(static_cast<uint64_t>(model.kernel()));
  parts.push_back(static_cast<uint64_t>(c.kv_format));
  if (pages != KvFormat::kActivations) parts.push_back(static_cast<uint64_t>(pages));
  if (device == Device::kCuda) {  // equal bits are promised on one device
    const std::string name = describe(device);
    parts.push_back(xxh64_of(std::span<const char>(name)));
    parts.push_back(number(cuda_version()));  // its sine and cosine give the rotations' angles
  } else {
    parts.push_back(library_digest());
  }
  model.for_each_weight([&](DType dtype, std::span<const std::byte> bytes) {
    parts.push_back(static_cast<uint64_t>(dtype));
    parts.push_back(xxh64(bytes));
  });
  return xxh64_of(std::span<const uint64_t>(parts));
}

}  // namespace kv
