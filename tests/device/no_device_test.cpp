// The output of a program that is asked for CUDA where there is none.

#include "tests/support/shell.h"

TEST_CASE("no device: a program asked for cuda says so in one line and exits with 2") {
  // Hides every GPU there may be.
  const auto outcome = kvtest::shell(
      "CUDA_VISIBLE_DEVICES=-1 $B/lesson01 --device cuda --prompt 'Once upon a time' --max-tokens "
      "1");
  kvtest::check_refused(outcome, "error: --device cuda: ");
  kvtest::check_refused(outcome, "; or use --device cpu\n");
  CHECK(outcome.out.empty());
}
