// The lesson's row of the ladder.

#include "../engine.h"
#include "memory_store.h"

namespace lesson13 {
namespace {

/// The store is memory, so that its answers come at once: every run has the same passes.
class EngineOfTwoServers final : public kv::Engine {
 public:
  EngineOfTwoServers(kv::Model& model, const PagedOptions& options)
      : first_(model, options, store_, {}, kOptions),
        second_(model, options, store_, {}, kOptions) {}
  kv::GenerateResult generate(std::span<const kv::Request> requests,
                              const kv::TokenCallback& on_token) override {
    return (num_turns_++ % 2 == 0 ? first_ : second_).generate(requests, on_token);
  }

 private:
  static inline const SharedTierOptions kOptions{.run = kv::RunJobs::kAtOnce};
  MemoryStore store_;
  SharedTierEngine first_, second_;  // borrow store_
  int num_turns_ = 0;
};

}  // namespace

std::unique_ptr<kv::Engine> make_engine(kv::Model& model, const PagedOptions& options) {
  return std::make_unique<EngineOfTwoServers>(model, options);
}

}  // namespace lesson13
