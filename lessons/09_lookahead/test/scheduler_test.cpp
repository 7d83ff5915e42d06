// Tests of lesson 09's scheduler: which requests have guesses, how many, and what becomes of them.

#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "common/error.h"
#include "lessons/06_prefix_hashing/test/requests.h"
#include "pooled_scheduler.h"

namespace {

using lesson06_test::found;
using lesson06_test::range;
using lesson06_test::table_of;
using lesson08::Order;
using lesson09_test::always;
using lesson09_test::Chunks;
using lesson09_test::PooledScheduler;
using lesson09_test::Tokens;

Tokens guesses_of(const PooledScheduler& s, int64_t id) {
  const auto guesses = s.guesses(id);
  return {guesses.begin(), guesses.end()};
}

}  // namespace

TEST_CASE("right guesses: a pass gives one token more than it has guesses") {
  PooledScheduler s(16, 4, always(7));
  s.submit(1, range(0, 6), 20);
  CHECK(s.step() == Chunks{{1, 6}});  // a prompt's last row is followed by guesses, too
  CHECK(s.num_known(1) == 6 + 5);
  CHECK(s.request(1).num_computed == 10);
  CHECK(s.num_slots(1) == 10);
  CHECK(s.step() == Chunks{{1, 1}});  // of the last token alone K and V are missing
  CHECK(s.num_known(1) == 6 + 10);
  CHECK(s.num_proposed() == 8);
  CHECK(s.num_accepted() == 8);
}

TEST_CASE("wrong guesses: a pass gives one token, and no slot is left of them") {
  PooledScheduler s(16, 4, always(8));
  s.submit(1, range(0, 6), 20);
  for (int pass = 0; pass < 4; ++pass) {
    CAPTURE(pass);
    s.step();
    CHECK(s.num_known(1) == 7 + pass);
    CHECK(s.request(1).num_computed == 6 + pass);
    CHECK(s.num_slots(1) == 6 + pass);
    CHECK(s.guesses(1).empty());
  }
  CHECK(s.num_proposed() == 16);
  CHECK(s.num_accepted() == 0);
}

TEST_CASE("the first wrong guess strikes out those after it, right or not") {
  PooledScheduler s(16, 4, [](auto, auto, int) { return Tokens{7, 7, 8, 7}; });
  s.submit(1, range(0, 6), 20);
  s.update(s.schedule().chunks);
  CHECK(guesses_of(s, 1) == Tokens{7, 7, 8, 7});
  CHECK(s.num_slots(1) == 10);
  s.add_token(1, 7);
  CHECK(guesses_of(s, 1) == Tokens{7, 8, 7});
  CHECK(s.wants_token(1));
  s.add_token(1, 7);
  CHECK(s.wants_token(1));
  s.add_token(1, 7);  // 8 was guessed
  CHECK_FALSE(s.wants_token(1));
  CHECK(s.guesses(1).empty());
  CHECK(s.num_slots(1) == 8);
  CHECK(s.request(1).num_computed == 8);
  CHECK(s.num_known(1) == 9);
  CHECK(s.num_accepted() == 2);
  CHECK_THROWS_AS(s.add_token(1, 7), std::logic_error);
  s.check();
}

TEST_CASE("no guesses in the middle of a prompt") {
  PooledScheduler s(16, 4, always(7), 4, {.max_tokens_per_pass = 8});
  s.submit(1, range(0, 12), 20);
  s.schedule();
  CHECK(s.guesses(1).empty());
  s.update(Chunks{{1, 8}});
  s.schedule();
  CHECK(guesses_of(s, 1).size() == 4);  // with the last four tokens
}

TEST_CASE("no guesses in the middle of known tokens, though a preemption left some of the budget") {
  PooledScheduler s(
      9, 4, [](int64_t id, auto, int max_guesses) { return Tokens(id == 2 ? max_guesses : 0, 7); },
      4, {.max_tokens_per_pass = 2, .full_sequence_must_fit = false, .order = Order::kPriority});
  const auto pass = [&] {
    const Chunks chunks = s.schedule().chunks;
    s.update(chunks);
    s.Scheduler::add_token(1, 7);  // lesson 08's: there are no guesses
    return chunks;
  };
  s.submit(1, range(0, 2), 20, {.priority = 5});
  pass();
  s.submit(2, range(100, 132), 2);
  lesson08_test::changed(s.request(2)).num_prompt = 5;  // 27 were generated before a preemption
  lesson08_test::changed(s.request(2)).max_tokens = 29;
  for (int i = 0; i < 16; ++i) CHECK(pass() == Chunks{{1, 1}, {2, 1}});
  CHECK(s.schedule().chunks == Chunks{{2, 1}});  // 1 had its row in this pass, and gave way
  CHECK(s.guesses(2).empty());  // a chunk of one token, and half of them are still to come
}

TEST_CASE("guesses come from what is known, and too many are cut") {
  Tokens seen;
  PooledScheduler s(16, 4, [&](auto, auto tokens, int max_guesses) {
    seen.assign(tokens.begin(), tokens.end());
    return Tokens(static_cast<size_t>(max_guesses) + 5, 9);
  });
  s.submit(1, range(0, 6), 20);
  s.schedule();
  CHECK(seen == range(0, 6));
  CHECK(guesses_of(s, 1).size() == 4);
  CHECK(s.num_slots(1) == 10);
}

TEST_CASE("a drafter that has nothing to say costs nothing") {
  PooledScheduler s(16, 4, [](auto, auto, int) { return Tokens{}; });
  s.submit(1, range(0, 6), 20);
  s.schedule();
  CHECK(s.num_slots(1) == 6);
  CHECK(s.num_proposed() == 0);
}

TEST_CASE("a pass whose drafter had nothing to say gives one token") {
  PooledScheduler s(16, 4, [](auto, auto, int) { return Tokens{}; });
  s.submit(1, range(0, 6), 20);
  for (int pass = 0; pass < 3; ++pass) s.step();
  CHECK(s.num_known(1) == 9);
}

TEST_CASE("a drafter is asked only where there is room") {
  std::vector<int> asked_for;
  PooledScheduler s(16, 4, [&](auto, auto, int max_guesses) {
    asked_for.push_back(max_guesses);
    return Tokens{};
  });
  s.submit(1, range(0, 6), 1);  // its first token is its last one, too
  s.submit(2, range(100, 103), 2);
  s.schedule();
  CHECK(asked_for == std::vector<int>{1});
}

TEST_CASE("0 guesses: the drafter is not asked") {
  PooledScheduler s(
      16, 4, [](auto, auto, int) -> Tokens { throw std::logic_error("asked"); }, 0);
  s.submit(1, range(0, 6), 20);
  for (int pass = 0; pass < 3; ++pass) s.step();
  CHECK(s.num_known(1) == 9);
  CHECK_THROWS_WITH_AS(PooledScheduler(16, 4, always(7), -1), doctest::Contains("-1 guesses"),
                       kv::UserError);
}

TEST_CASE("nothing is guessed beyond max_tokens: the last token is never run") {
  for (const int max_tokens : {1, 2, 3, 5, 6}) {
    CAPTURE(max_tokens);
    PooledScheduler s(16, 4, always(7));
    s.submit(1, range(0, 6), max_tokens);
    s.schedule();
    CHECK(std::ssize(s.guesses(1)) == std::min(4, max_tokens - 1));
    CHECK(s.num_slots(1) <= 6 + max_tokens - 1);
  }
}

TEST_CASE("the budget counts guesses") {
  PooledScheduler s(64, 4, always(8), 4, {.max_tokens_per_pass = 12});
  for (const int id : {1, 2, 3}) s.submit(id, range(100 * id, 100 * id + 2), 20);
  CHECK(s.schedule().chunks == Chunks{{1, 2}, {2, 2}, {3, 2}});
  INFO("three requests have two tokens each: six of twelve are left");
  CHECK(guesses_of(s, 1).size() == 4);
  CHECK(guesses_of(s, 2).size() == 2);
  CHECK(guesses_of(s, 3).empty());
  CHECK(s.num_proposed() == 4 + 2);
}

TEST_CASE("tokens that are known come first, those of a new request too") {
  PooledScheduler s(64, 4, always(8), 4, {.max_tokens_per_pass = 10});
  s.submit(1, range(0, 3), 20);
  s.submit(2, range(100, 103), 20);
  s.step();
  s.submit(3, range(200, 207), 20);
  CHECK(s.schedule().chunks == Chunks{{1, 1}, {2, 1}, {3, 7}});
  CHECK(guesses_of(s, 1).size() == 1);
}

TEST_CASE("a longest chunk counts guesses, too") {
  PooledScheduler s(64, 4, always(8), 4, {.max_chunk = 3});
  s.submit(1, range(0, 5), 20);
  CHECK(s.step() == Chunks{{1, 3}});
  CHECK(s.schedule().chunks == Chunks{{1, 2}});
  CHECK(guesses_of(s, 1).size() == 1);
}

TEST_CASE("too few blocks: fewer guesses, or none") {
  PooledScheduler s(3, 4, always(8), 6);
  s.submit(1, range(0, 3), 9);
  s.submit(2, range(100, 104), 5);
  CHECK(s.schedule().chunks == Chunks{{1, 3}, {2, 4}});
  INFO("one block is left: 1 takes it for its guesses, and 2 has no slot for one");
  CHECK(guesses_of(s, 1).size() == 5);
  CHECK(guesses_of(s, 2).empty());
  CHECK(s.num_slots(1) == 8);
  CHECK(s.num_slots(2) == 4);
  CHECK(s.num_proposed() == 5);  // what was guessed, and not what there was room for
}

TEST_CASE("no request gives way for a guess") {
  PooledScheduler s(3, 4, always(8), 6);
  s.submit(1, range(0, 3), 9);
  s.submit(2, range(100, 104), 5);
  s.step();
  CHECK(s.pool.num_free() == 1);
  CHECK(s.schedule().chunks == Chunks{{1, 1}, {2, 1}});  // 2 needs that block for a token
  CHECK(s.num_preemptions() == 0);
  CHECK(guesses_of(s, 2).size() == 3);
}

TEST_CASE("while a request waits, guesses take no block") {
  PooledScheduler s(4, 4, always(8));
  s.submit(1, range(0, 6), 11);
  s.submit(2, range(100, 112), 4);  // three blocks; two are free
  CHECK(s.schedule().chunks == Chunks{{1, 6}});
  CHECK(guesses_of(s, 1).size() == 2);  // what is left of its last block
  CHECK(s.pool.num_free() == 2);

  PooledScheduler full(4, 4, always(8));
  full.submit(1, range(0, 8), 9);
  full.submit(2, range(100, 112), 4);
  CHECK(full.schedule().chunks == Chunks{{1, 8}});
  CHECK(full.guesses(1).empty());  // nothing is left of a full one
}

TEST_CASE("blocks of guesses that were not judged are there for a token that must run") {
  PooledScheduler s(4, 4, always(7), 4);
  s.submit(1, range(0, 4), 8);
  s.submit(2, range(100, 104), 8);
  s.update(s.schedule().chunks);
  CHECK(s.pool.num_free() == 0);                 // each has a block for its guesses
  CHECK(s.give(1) == 5);                         // all four were right
  CHECK(s.schedule().chunks == Chunks{{1, 1}});  // its third block was 2's, whose token is late
  CHECK(s.num_preemptions() == 0);
  CHECK(s.num_slots(2) == 4);
  s.add_token(2, 7);  // and no guess is there to be right
  CHECK(s.num_known(2) == 5);
  CHECK_FALSE(s.wants_token(2));
}

TEST_CASE("a block is found by others when its last guess is accepted, and not before") {
  PooledScheduler s(16, 4, always(7), 4);
  s.submit(1, range(0, 3), 20);
  s.update(s.schedule().chunks);
  Tokens tokens = range(0, 3);
  tokens.resize(12, 7);
  CHECK(found(s.books, tokens) == 0);
  s.add_token(1, 7);  // accepted: four tokens are computed
  CHECK(found(s.books, tokens) == 4);
  CHECK(s.give(1) == 4);  // all the others: seven are computed
  CHECK(s.request(1).num_computed == 7);
  CHECK(found(s.books, tokens) == 4);
  s.step();
  CHECK(found(s.books, tokens) == 8);
}

TEST_CASE("blocks full of rejected guesses are never found") {
  PooledScheduler s(16, 4, always(8), 9);
  s.submit(1, range(0, 3), 20);
  Tokens guessed = range(0, 3);
  guessed.resize(16, 8);
  for (int pass = 0; pass < 6; ++pass) {
    s.update(s.schedule().chunks);
    CHECK(found(s.books, guessed) == 0);
    s.give(1);
    CHECK(found(s.books, guessed) == 0);
  }
}

TEST_CASE("blocks that stay keep their numbers") {
  PooledScheduler s(16, 4, always(8), 9);
  s.submit(1, range(0, 3), 20);
  std::vector<int32_t> before;
  for (int pass = 0; pass < 10; ++pass) {
    s.step();
    const auto now = table_of(s.books, 1);
    CHECK(std::equal(before.begin(), before.end(), now.begin()));
    CHECK(std::ssize(now) == (s.request(1).num_computed + 3) / 4);
    before = now;
  }
}

TEST_CASE("a request that ends among its guesses leaves nothing") {
  PooledScheduler s(16, 4, always(7), 4);
  s.submit(1, range(0, 6), 20);
  s.update(s.schedule().chunks);
  s.add_token(1, 7);
  CHECK(s.finish(1));  // a stop token, in the middle of the guesses
  CHECK(s.guesses(1).empty());
  CHECK(s.pool.num_used() == 0);
  s.submit(1, range(50, 53), 4);  // the same number once more
  CHECK(s.step() == Chunks{{1, 3}});
  s.check();
}

TEST_CASE("a request that is preempted loses its guesses, and keeps the token that comes late") {
  PooledScheduler s(16, 4, always(7), 4);
  s.submit(1, range(0, 6), 20);
  s.update(s.schedule().chunks);
  CHECK(s.reset_prefix_cache(true));
  CHECK(s.wants_token(1));
  s.add_token(1, 7);
  CHECK_FALSE(s.wants_token(1));  // it was guessed, but its K and V are gone
  CHECK(s.num_accepted() == 0);
  CHECK(s.guesses(1).empty());
  CHECK(s.step() == Chunks{{1, 7}});
  CHECK(s.num_known(1) == 7 + 5);
  s.check();
}

TEST_CASE("a victim of a preemption runs again with guesses, and to the same end") {
  for (const int32_t guess : {7, 8}) {
    PooledScheduler s(4, 4, always(guess), 4);
    s.submit(1, range(0, 8), 8);
    s.submit(2, range(100, 107), 8);
    int passes = 0;
    while (!s.idle() && ++passes < 100) {
      for (const auto& chunk : s.step()) {
        CHECK(s.num_slots(chunk.id) == s.request(chunk.id).num_computed);
        if (s.num_known(chunk.id) ==
            s.request(chunk.id).num_prompt + s.request(chunk.id).max_tokens)
          s.finish(chunk.id);
      }
    }
    CHECK(s.idle());
    CHECK(s.num_preemptions() > 0);
    CHECK(s.pool.num_used() == 0);
  }
}

TEST_CASE("without chunked prefill guesses never make a pass too long") {
  PooledScheduler s(8, 16, always(7), 4, {.max_tokens_per_pass = 10, .chunked_prefill = false});
  s.submit(1, range(0, 6), 5);
  s.submit(2, range(100, 109), 2);
  CHECK(s.schedule().chunks == Chunks{{1, 6}});
  CHECK(guesses_of(s, 1).size() == 4);
}
