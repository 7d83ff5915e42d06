// Requests that are cut, doubled and changed at random: the server answers each or closes the
// connection, and stays. A thousandth of KV_RANDOM_OPS is their number, KV_RANDOM_SEED
// the seed.
#define KV_SERVE_TESTS_SERVER
#include <random>

#include "instruments/serve/test/support.h"
#include "tests/support/shortened.h"

using namespace serve_test;

namespace {

#ifdef KV_SANITIZED
constexpr int64_t kNumOps = 1'000'000;
#else
constexpr int64_t kNumOps = 100'000'000;
#endif

}  // namespace

TEST_CASE("malformed requests: the server stays, and all blocks are free") {
  const int64_t count = kvtest::number_from("KV_RANDOM_OPS", kNumOps) / 1000;
  const auto seed = static_cast<uint64_t>(kvtest::number_from("KV_RANDOM_SEED", 1));
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const std::vector<std::string> good = {
      post("/v1/completions", R"({"prompt":"a","max_tokens":1,"stream":true,"stop":["b"],"n":1})"),
      post("/v1/completions", R"({"prompt":[1,2],"max_tokens":1,"logprobs":1,"echo":false})"),
      post("/v1/chat/completions",
           R"({"messages":[{"role":"user","content":"x"}],"max_tokens":1})"),
      post("/tokenize", R"({"prompt":"a b"})"),
      get("/v1/models"),
      get("/kv_snapshot"),
      get("/health", "Connection: close\r\n")};
  const std::vector<std::string> pieces = {"\r\n",
                                           "\n",
                                           "\0",
                                           "{",
                                           "}",
                                           "\"",
                                           "Content-Length: 9\r\n",
                                           "Transfer-Encoding: chunked\r\n",
                                           "HTTP/1.1",
                                           "-1",
                                           "\xFF",
                                           "99999999999",
                                           "null",
                                           "[]",
                                           ":",
                                           "1e400",
                                           "\\ud800"};
  Running running;
  for (int64_t i = 0; i < count; ++i) {
    std::string bytes = good[below(good.size())];
    for (size_t changes = below(4); changes > 0 && !bytes.empty(); --changes) {
      const size_t at = below(bytes.size());
      const size_t n = 1 + below(8);
      switch (below(5)) {
        case 0:
          bytes.resize(at);
          break;
        case 1:
          bytes.erase(at, n);
          break;
        case 2:
          bytes.insert(at, pieces[below(pieces.size())]);
          break;
        case 3:
          bytes[at] = static_cast<char>(random());
          break;
        default:
          bytes.insert(at, bytes.substr(below(bytes.size()), n));
          break;
      }
    }
    Client client(running.port());
    REQUIRE(client.connected());
    client.send(bytes);
    if (i % 3 == 0) {
      client.end_sending();
      client.wait_for_end(10ms);
    } else if (i % 3 == 1) {
      client.wait_for("\r\n\r\n", 2ms);
    }
    if (i % 7 == 0) client.reset();
  }
  CHECK(running.ask(get("/health")).status == 200);
  CHECK(running.becomes_idle());
}
