#pragma once

// Two servers over one store, and a store that may change, lose or refuse what it has.

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "servers.h"

namespace lesson13_test {

using lesson13::BlockName;
using lesson13::BlockStore;
using lesson13::SharedMetrics;

inline const SharedMetrics& metrics_of(const SharedTierEngine& engine) {
  return engine.server()->tier().metrics();
}

/// A store whose values may change, be late or not come.
class BadStore final : public BlockStore {
 public:
  explicit BadStore(BlockStore& store) : store_(store) {}
  std::function<bool()> answers = [] { return true; };
  std::function<std::string(size_t index, std::string_view value)> changed =
      [](size_t, std::string_view value) { return std::string(value); };

  std::optional<size_t> find(std::span<const BlockName> names) override {
    return answers() ? store_.find(names) : std::nullopt;
  }
  void get(std::span<const BlockName> names, const OnValue& on_value) override {
    for (size_t i = 0; i < names.size() && answers(); ++i) {
      store_.get(names.subspan(i, 1), [&](size_t, std::string_view value) {
        const std::string now = changed(i, value);
        if (!now.empty()) on_value(i, now);
      });
    }
  }
  bool put(const BlockName& name, std::string_view value) override {
    return answers() && store_.put(name, value);
  }

 private:
  BlockStore& store_;
};

/// Runs a server to the end of its requests.
inline void run(lesson13::Server& server) {
  while (!server.idle()) server.step();
  server.settle();
}

/// A server has put its texts into the store, and another one, whose store is bad, serves them.
struct TwoServers {
  TwoServers() {
    SharedTierEngine engine(model, {.num_blocks = 40}, store, {}, always());
    wanted = engine.generate(requests);
  }
  SharedMetrics serve(BlockStore& from, const lesson13::SharedOptions& shared = {}) {
    SharedTierEngine engine(model, {.num_blocks = 40}, from, {}, always(60, shared));
    const auto result = engine.generate(requests);
    kvtest::check_equal(result, wanted);
    computed = result.counters.kv_rows_computed;
    engine.manager()->check();
    CHECK(engine.manager()->host().num_used() == 0);
    return metrics_of(engine);
  }
  kv::Model& model = kvtest::shipped_model();
  std::vector<kv::Request> requests = lesson08_test::texts();  // three or four full blocks each
  MemoryStore store;
  BadStore bad{store};
  kv::GenerateResult wanted;
  int64_t computed = 0;
};

}  // namespace lesson13_test
