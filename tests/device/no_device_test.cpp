// What a user sees of a program that is asked for CUDA where there is none.

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace {

struct Outcome {
  int exit_code = -1;
  std::string output;  // stdout and stderr
};

Outcome run(const std::string& command) {
  Outcome outcome;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.output.append(buffer.data(), n);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

}  // namespace

TEST_CASE("no device: a program asked for cuda says so in one line and exits with 2") {
  // Hides every GPU there may be.
  const Outcome outcome =
      run("CUDA_VISIBLE_DEVICES=-1 " KV_BINARY_DIR
          "/bin/lesson01 --device cuda --prompt 'Once upon a time' --max-tokens 1");
  CAPTURE(outcome.output);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.output.find("error: --device cuda: ") == 0);
  CHECK(outcome.output.find("; or use --device cpu\n") != std::string::npos);
  CHECK(outcome.output.find('\n') == outcome.output.size() - 1);
}
