// Guesses that the device judges.

#include "judged.h"

namespace {
constexpr auto kCpu = kv::Device::kCpu;
}

TEST_CASE("the first wrong guess takes the choices of its row and of those after it") {
  lesson09_test::check_four_sequences(kCpu);
}

TEST_CASE("no row, one row, one guess: what is left of the choices") {
  lesson09_test::check_few_rows(kCpu);
}

TEST_CASE("many sequences, few guesses or many, all right, none, some: what is left") {
  lesson09_test::check_judged(kCpu, {0, 1, 2, 40, 1000}, {0, 1, 4, 40, 300});
}
