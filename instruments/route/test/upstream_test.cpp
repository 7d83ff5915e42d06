// The router's knowledge of a server between two events.
#include "instruments/route/upstream.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include "instruments/route/prompts.h"

using namespace route;
using namespace std::chrono_literals;

namespace {

std::shared_ptr<const Prompts> prompt(int64_t tokens, std::vector<uint64_t> blocks) {
  return std::make_shared<Prompts>(
      Prompts{.all = {{.tokens = tokens, .blocks = std::move(blocks)}}, .block_size = 10});
}

/// Its cache stores blocks, and its router hears of it.
struct Told : Upstream {
  int seq = 0;
  Told() { mirror.take_snapshot(R"({"seq":-1,"block_size":10,"num_blocks":100,"blocks":[]})"); }
  void store(std::vector<uint64_t> blocks, Clock::time_point now = {}) {
    std::string text;
    for (const uint64_t block : blocks) text += fmt::format(",\"{:016x}\"", block);
    mirror.take(
        fmt::format("data: "
                    "{{\"seq\":{},\"ts\":1,\"events\":[{{\"type\":\"BlockStored\",\"block_hashes\":"
                    "[{}]}}]}}\n\n",
                    seq++, text.substr(1)));
    cache_changed(now);
  }
};

}  // namespace

TEST_CASE("route: blocks of a request that waits are expected, and its tokens go as blocks come") {
  Told server;
  const auto first = prompt(35, {1, 2, 3});
  CHECK(server.view(*first).cached_blocks == 0);
  const int64_t number = server.begin(first, true, {});
  CHECK(server.waiting_tokens() == 35);
  const ServerView view = server.view(*prompt(25, {1, 2}));
  CHECK(view.cached_blocks == 2);
  CHECK(view.sent_blocks == 2);
  CHECK(view.tree_blocks == 3);
  CHECK(view.waiting == 1);
  CHECK(view.held_blocks == 3);
  CHECK(view.pool_blocks == 100);
  server.store({1, 2});
  CHECK(server.waiting_tokens() == 15);
  server.first_byte(number, {});
  CHECK(server.waiting_tokens() == 0);
  CHECK(server.num_waiting() == 0);
  CHECK(server.num_running() == 1);
  CHECK(server.view(*first).cached_blocks == 2);  // block 3 has not come
  server.end(number, {});
  CHECK(server.num_running() == 0);
  CHECK(server.view(*first).held_blocks == 0);
  server.end(number, {});  // twice is no harm
}

TEST_CASE("route: what the shared store has counts after what the server has") {
  Told server;
  server.store({1, 2});
  const std::vector<int64_t> more{3}, fewer{1};
  CHECK(server.view(*prompt(50, {1, 2, 3, 4}), more).store_blocks == 1);
  CHECK(server.view(*prompt(50, {1, 2, 3, 4}), fewer).store_blocks == 0);
  CHECK(server.view(*prompt(50, {1, 2, 3, 4})).store_blocks == 0);
}

TEST_CASE("route: the last token always runs") {
  Told server;
  server.store({1, 2});
  CHECK(server.view(*prompt(20, {1, 2})).cached_blocks == 1);
  CHECK(server.view(*prompt(21, {1, 2})).cached_blocks == 2);
}

TEST_CASE("route: an answer that is no stream waits as long as its blocks are missing") {
  Told server;
  server.begin(prompt(25, {1, 2}), false, {});
  server.store({1});
  CHECK(server.num_waiting() == 1);
  server.store({2});
  CHECK(server.num_waiting() == 0);
  server.begin(prompt(5, {}), false, {});  // less than a block
  CHECK(server.num_waiting() == 0);
  CHECK(server.num_running() == 2);
}

TEST_CASE("route: a request with the prefix of one that waits adds its own tokens alone") {
  Told server;
  server.begin(prompt(41, {1, 2, 3, 4}), true, {});
  server.begin(prompt(45, {1, 2, 3, 4}), true, {});
  CHECK(server.waiting_tokens() == 41 + 5);
}

TEST_CASE("route: rates are those of the fleet, unless a server is far from them") {
  Told slow, quick, new_one;
  const Clock::time_point start{};
  const auto serves = [&](Told& server, int64_t tokens, std::chrono::milliseconds time) {
    const int64_t number = server.begin(prompt(tokens, {}), true, start);
    server.first_byte(number, start + time);
    server.end(number, start + time + 5s);  // the answer counts for nothing
  };
  const std::vector<const Upstream*> all{&slow, &quick, &new_one};
  CHECK(rates_of(all) == std::vector<double>{1, 1, 1});
  serves(slow, 1000, 1000ms);
  serves(quick, 1200, 1000ms);
  CHECK(rates_of(all) == std::vector<double>{1100, 1100, 1100});
  serves(quick, 13'800, 2000ms);  // 5000 of its own, near the mean of 4000
  CHECK(rates_of(all) == std::vector<double>{1000, 4000, 4000});
}

TEST_CASE("route: the router makes the blocks that a server would") {
  const PromptReader reader(KV_SOURCE_DIR "/models/tiny", "auto");
  const auto blocks = [&](const char* body, bool chat = false) {
    const auto read = reader.read(body, chat, 2);
    return read.prompts->all.empty() ? std::vector<uint64_t>() : read.prompts->all[0].blocks;
  };
  const auto plain = blocks(R"({"prompt":[1,2,3,4,5]})");
  CHECK(plain.size() == 2);
  CHECK(plain == blocks(R"({"prompt":[1,2,3,4],"model":"any","priority":3})"));
  CHECK(plain != blocks(R"({"prompt":[1,2,3,4],"cache_salt":"tenant"})"));
  CHECK(blocks(R"({"prompt":"Once upon a time"})").size() == 2);
  CHECK(!blocks(R"({"messages":[{"role":"user","content":"Once upon a time"}]})", true).empty());
  CHECK(blocks("no JSON").empty());
  CHECK(blocks("[]").empty());
  CHECK(blocks(R"({"prompt":[1,2,3],"n":"many"})").empty());
  CHECK(reader.read(R"({"prompt":"Once","stream":true})", false, 2).stream);
  CHECK(reader.read(R"({"prompt":[[1,2],[3,4,5,6]]})", false, 2).prompts->size().blocks == 3);
  CHECK(reader.read(R"({"prompt":"Once"})", false, 0).prompts->all.empty());
}
