// The plain kernel on the CPU: right, and with bits that depend on a query's keys alone.

#include "attend.h"
#include "engine.h"
#include "tests/support/shipped_model.h"

namespace {

const auto plain = lesson01_test::attend_with(kv::Kernel::kPlain, kv::Device::kCpu);
const auto fast = lesson01_test::attend_with(kv::Kernel::kFast, kv::Device::kCpu);

}  // namespace

TEST_CASE("plain attention is close to double precision and to the fast kernel") {
  kvtest::check_plain_attention(plain, fast, kv::Device::kCpu, 1000);
}

TEST_CASE("the bits of plain attention depend on a query's keys alone") {
  kvtest::check_bits_of_a_query(plain, /*chunks=*/false);
}

TEST_CASE("plain attention: huge scores neither overflow nor lose the largest") {
  kvtest::check_extreme_scores(plain);
}

TEST_CASE("an engine on plain kernels writes the text of one on fast kernels, with other bits") {
  kv::Model& model = kvtest::shipped_model();
  const auto engine = lesson01::make_engine(model, {});
  const kv::Request request = kvtest::request_of(4, 20);
  const auto with_fast = engine->generate({&request, 1}).completions[0];
  model.set_kernel(kv::Kernel::kPlain);
  const auto with_plain = engine->generate({&request, 1}).completions[0];
  model.set_kernel(kv::Kernel::kFast);
  CHECK(with_plain.tokens == with_fast.tokens);
  CHECK(with_plain.logits_xxh64 != with_fast.logits_xxh64);
}
