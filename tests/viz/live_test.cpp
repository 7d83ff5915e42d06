// A live run: a thread that generates, one token at a time.

#include "viz/live.h"

#include <doctest/doctest.h>

#include <memory>
#include <span>

#include "common/error.h"
#include "viz/page.h"

TEST_CASE("a live run stands still between tokens and ends with its owner") {
  int made = 0;
  bool returned = false;
  {
    viz::LiveRun run([&](const kv::TokenCallback& on_token) {
      while (on_token(0, made)) ++made;
      returned = true;
    });
    CHECK(run.tokens().empty());
    CHECK(run.step());
    CHECK(run.tokens().size() == 1);
    CHECK(run.step());
    CHECK(made == 1);
    CHECK_FALSE(run.finished());
  }
  CHECK(returned);  // the destructor cancelled it and waited
  viz::LiveRun done([](const kv::TokenCallback& on_token) { on_token(0, 5); });
  CHECK(done.step());
  CHECK(done.step());
  CHECK(done.finished());
  CHECK_FALSE(done.step());
  CHECK(done.error().empty());
}

TEST_CASE("a live run that fails midway is reported as a failure, not as its end") {
  struct Failing : kv::Engine {
    kv::GenerateResult generate(std::span<const kv::Request>,
                                const kv::TokenCallback& on_token) override {
      for (int32_t token = 0; token < 2; ++token) on_token(0, token);
      throw kv::DeviceError("the device is gone");
    }
  };
  viz::Live live{viz::PageContext{}};
  live.start(std::make_unique<Failing>(), {kv::Request{}});
  CHECK(live.step());
  CHECK(live.generated().size() == 2);
  CHECK_THROWS_WITH_AS(live.step(), "the run failed: the device is gone", kv::UserError);
  CHECK(live.finished());
  live.stop();
  CHECK(live.generated().empty());
}
