// Tests of the server's submit, abort, step and idle.

#include <algorithm>
#include <map>
#include <vector>

#include "common/error.h"
#include "engine.h"
#include "lessons/06_prefix_hashing/test/requests.h"
#include "served.h"

namespace {

using kv::StepOutput;
using kvtest::request_of;
using kvtest::shipped_model;
using lesson08::Server;
using Ids = std::vector<int64_t>;

lesson03::PagedOptions blocks(int num_blocks, int block_size = 4) {
  return {.block_size = block_size, .num_blocks = num_blocks};
}

/// A prompt of `size` tokens from `first` on.
kv::Request prompt_of(int first, int size, int max_tokens) {
  kv::Request request;
  request.prompt = lesson06_test::range(first, first + size);
  request.max_tokens = max_tokens;
  return request;
}

Ids ids_of(const StepOutput& step) {
  Ids ids;
  for (const auto& token : step.tokens) ids.push_back(token.id);
  return ids;
}

void check_all_free(const Server& server) {
  server.scheduler().check();
  CHECK(server.manager().pool().num_used() == 0);
  CHECK(server.idle());
}

}  // namespace

TEST_CASE("a step on an idle server does nothing, before the first request and after the last") {
  Server server(shipped_model(), blocks(16));
  for (int round = 0; round < 2; ++round) {
    const StepOutput step = server.step();
    CHECK(server.idle());
    CHECK(step.tokens.empty());
    CHECK(step.ended.empty());
    CHECK(step.preempted.empty());
    CHECK(step.num_rows == 0);
    server.submit(5, prompt_of(0, 3, 1));
    CHECK_FALSE(server.idle());
    CHECK(server.step().ended.size() == 1);
  }
  check_all_free(server);
}

TEST_CASE("a step says which request got which token, and which ended, and why") {
  std::vector<kv::Request> requests{request_of(9, 3), request_of(14, 6), request_of(5, 1)};
  auto wanted = lesson08_test::flat(shipped_model(), requests);
  requests[1].stop_token_ids = {wanted.completions[1].tokens[4]};
  wanted = lesson08_test::flat(shipped_model(), requests);
  const Ids ids{7, -2, int64_t{1} << 40};
  Server server(shipped_model(), blocks(32));
  for (size_t i = 0; i < ids.size(); ++i) server.submit(ids[i], requests[i]);
  std::map<int64_t, kv::Completion> found;
  CHECK(ids_of(server.step()) == ids);  // the first token of each
  for (const int64_t id : ids) server.abort(id);
  for (size_t i = 0; i < ids.size(); ++i) server.submit(ids[i], requests[i]);
  while (!server.idle()) {
    const StepOutput step = server.step();
    CHECK(step.num_rows > 0);
    for (const auto& token : step.tokens) {
      found[token.id].tokens.push_back(token.token);
      found[token.id].logits_xxh64 = token.logits_xxh64;
    }
    for (const auto& ended : step.ended) {
      found[ended.id].finish = ended.reason;
      CHECK_FALSE(server.abort(ended.id));  // it is not there any more
    }
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    CAPTURE(i);
    CHECK(found[ids[i]].tokens == wanted.completions[i].tokens);
    CHECK(found[ids[i]].logits_xxh64 == wanted.completions[i].logits_xxh64);
    CHECK(found[ids[i]].finish == wanted.completions[i].finish);
  }
  check_all_free(server);
}

TEST_CASE("aborted in every state: the blocks are free at once, and full ones can be found") {
  const kv::Request first = prompt_of(0, 9, 8), second = prompt_of(100, 7, 8);
  Server server(shipped_model(), blocks(5));
  server.submit(1, first);
  server.submit(2, second);
  CHECK(server.abort(2));  // before it ever ran
  CHECK(ids_of(server.step()) == Ids{1});
  server.submit(2, second);
  server.submit(3, prompt_of(200, 20, 1));  // waits: the pool is never free enough
  CHECK(ids_of(server.step()) == Ids{1, 2});
  CHECK(server.abort(3));  // waiting
  Ids preempted;
  while (preempted.empty()) preempted = server.step().preempted;
  CHECK(preempted == Ids{2});
  CHECK(server.scheduler().waiting() == Ids{2});
  CHECK(server.abort(2));  // preempted
  CHECK(server.manager().pool().num_used() ==
        lesson03::blocks_for(server.manager().table(1).num_tokens(), 4));
  CHECK(server.abort(1));  // running
  CHECK_FALSE(server.abort(1));
  check_all_free(server);
  // Two full blocks of the first prompt: the next request with it starts after them.
  server.submit(4, first);
  server.step();
  CHECK(server.scheduler().request(4).num_cached == 8);
  CHECK(server.abort(4));
  check_all_free(server);
}

TEST_CASE("aborted in the middle of a prompt") {
  Server server(shipped_model(), blocks(8), {.scheduler = {.max_tokens_per_pass = 6}});
  server.submit(1, prompt_of(0, 20, 4));
  const StepOutput step = server.step();
  CHECK(step.num_rows == 6);
  CHECK(step.tokens.empty());
  CHECK(server.abort(1));
  check_all_free(server);
  server.submit(1, prompt_of(0, 20, 4));
  server.step();
  CHECK(server.scheduler().request(1).num_cached == 4);  // of 6 computed ones: a full block
}

TEST_CASE("an id is free again after an end and an abort, and refused while it is there") {
  Server server(shipped_model(), blocks(8));
  const kv::Request request = prompt_of(0, 5, 2);
  server.submit(1, request);
  CHECK_THROWS_WITH_AS(server.submit(1, request), doctest::Contains("a request 1 already"),
                       kv::UserError);
  CHECK(ids_of(server.step()) == Ids{1});
  CHECK(server.step().ended.size() == 1);
  server.submit(1, request);
  CHECK(server.abort(1));
  server.submit(1, request);
  CHECK(ids_of(server.step()) == Ids{1});
}

TEST_CASE("a request that can never run is refused by check and by submit, and leaves nothing") {
  Server server(shipped_model(), {.block_size = 4, .num_blocks = 4, .engine = {.max_seq_len = 12}});
  const kv::Request empty, too_long = prompt_of(0, 9, 5), none = prompt_of(0, 3, 0);
  for (const kv::Request* request : {&empty, &too_long}) {
    CHECK_THROWS_AS(server.check(3, *request), kv::UserError);
    CHECK_THROWS_AS(server.submit(3, *request), kv::UserError);
  }
  CHECK_THROWS_WITH_AS(server.submit(3, none), doctest::Contains("wants 0 tokens"), kv::UserError);
  check_all_free(server);
  CHECK_THROWS_AS(Server(shipped_model(), blocks(4, 3)), kv::UserError);
}

TEST_CASE("a step reports who was preempted by a reset of the cache before it") {
  Server server(shipped_model(), blocks(32));
  server.submit(1, prompt_of(0, 9, 8));
  server.submit(2, prompt_of(100, 7, 8));
  server.step();
  server.reset_prefix_cache();
  const StepOutput step = server.step();
  Ids preempted = step.preempted;
  std::ranges::sort(preempted);
  CHECK(preempted == Ids{1, 2});
  CHECK(step.num_rows == 10 + 8);  // both run again from their first token
  CHECK(server.step().preempted.empty());
}

TEST_CASE("priorities, and requests that skip the cache, through submit") {
  Server server(shipped_model(), blocks(16),
                {.scheduler = {.max_running = 1, .order = lesson08::Order::kPriority}});
  server.submit(1, prompt_of(0, 9, 1), {.priority = 2});
  server.submit(2, prompt_of(0, 9, 1), {.priority = 1});
  CHECK(ids_of(server.step()) == Ids{2});
  CHECK(server.step().num_rows == 1);  // the rest is found
  server.submit(3, prompt_of(0, 9, 1), {.skip_reading_prefix_cache = true});
  CHECK(server.step().num_rows == 9);
}

TEST_CASE("a token that the device has struck out, and that is wanted, is an error") {
  kv::Model& model = shipped_model();
  const kv::Request request = request_of(5, 2);
  kv::TokenChooser chooser(model, true);
  lesson03::PagedKvCache cache(model.config(), model.stream(), 4, 4);
  lesson08::ServingAttention attention(model.config(), cache);
  lesson03::BlockTable table(4);
  std::ranges::copy(std::vector<int32_t>{1, 2}, table.extend(5).begin());
  kv::PassRows rows;
  rows.add(0, request.prompt, 0);
  attention.set_tables({&table});
  chooser.launch(rows, attention);
  kv::fill_bytes(chooser.device_chosen(), 0xFF, sizeof(int32_t), model.stream());
  chooser.fetch();
  CHECK(chooser.chosen()[0] == -1);
  kv::TokenStream stream(request);
  CHECK_THROWS_WITH_AS(chooser.choose(rows, 0, stream),
                       "request 0 wants the token of row 0, and the device has none",
                       std::logic_error);
}
