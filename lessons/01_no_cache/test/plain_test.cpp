// The plain kernel on the CPU: right, and with bits that depend on a query's keys alone.

#include "attend.h"

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
