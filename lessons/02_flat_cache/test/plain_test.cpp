// The plain kernel on the CPU: right, with bits that depend on a query's keys alone, and with those
// of lesson 01.

#include "attend.h"
#include "engine.h"
#include "lessons/01_no_cache/engine.h"
#include "lessons/01_no_cache/test/attend.h"
#include "tests/support/shipped_model.h"

using lesson02_test::attend_with;
constexpr auto kPlain = kv::Kernel::kPlain;
constexpr auto kCpu = kv::Device::kCpu;

TEST_CASE("plain attention over slabs is close to double precision and to the fast kernel") {
  kvtest::check_plain_attention(attend_with(kPlain, kCpu), attend_with(kv::Kernel::kFast, kCpu),
                                kCpu, 3);
}

TEST_CASE("the bits of plain attention over slabs depend on a query's keys alone") {
  kvtest::check_bits_of_a_query(attend_with(kPlain, kCpu), /*chunks=*/true);
}

TEST_CASE(
    "plain attention has lesson 01's bits wherever the slabs are and whatever else they hold") {
  kvtest::check_equal_bits(
      lesson01_test::attend_with(kPlain, kCpu),
      {attend_with(kPlain, kCpu),
       attend_with(kPlain, kCpu, {.spare_slots = 100, .last_slab_first = true}),
       attend_with(kPlain, kCpu, {.unused = kv::BFloat16{0}})});
}

TEST_CASE("plain attention over slabs: huge scores neither overflow nor lose the largest") {
  kvtest::check_extreme_scores(attend_with(kPlain, kCpu));
}

TEST_CASE("an engine on plain kernels has lesson 01's bits") {
  kv::Model& model = kvtest::shipped_model();
  const std::vector<kv::Request> requests{kvtest::request_of(4, 20), kvtest::request_of(70, 3)};
  model.set_kernel(kv::Kernel::kPlain);
  const auto whole = lesson01::make_engine(model, {})->generate(requests).completions;
  const auto cached = lesson02::make_engine(model, {})->generate(requests).completions;
  model.set_kernel(kv::Kernel::kFast);
  for (size_t i = 0; i < requests.size(); ++i) {
    CHECK(cached[i].tokens == whole[i].tokens);
    CHECK(cached[i].logits_xxh64 == whole[i].logits_xxh64);
  }
}
