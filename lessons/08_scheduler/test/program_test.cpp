// The program of lesson 08, run as a user runs it.

#include "tests/support/shell.h"

TEST_CASE("without chunked prefill the program still compares with chunks of 16 tokens") {
  const auto run = kvtest::shell(
      "$B/lesson08 --device cpu --model $S/models/tiny --num-requests 6 --bursts 1 "
      "--no-chunked-prefill --compare");
  INFO(run.err);
  CHECK(run.code == 0);
  CHECK(run.out.find("chunks of 16 tokens") != std::string::npos);
  CHECK(run.out.find("NO") == std::string::npos);
}
