#pragma once

// Named requests on a lesson's cache manager. Every command is a whole pass: the tokens that it
// brings are looked up, given slots, computed and cached at once.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "viz/live.h"
#include "viz/names.h"

namespace viz {

/// A Manager has get_computed_blocks(), allocate_slots(), cache_blocks() and free(), as vLLM's has.
template <class Manager, class Hashes>
class WordRequests {
 public:
  struct Request : SequenceView {
    int64_t id = 0;  // the manager's
    int num_cached_tokens = 0;
    std::vector<int32_t> tokens = {};
    Hashes hashes = {};
  };

  explicit WordRequests(size_t max_requests) : all_("request", max_requests) {}
  const NamedList<Request>& all() const { return all_; }
  std::string why_not_ask(const std::string& name, const std::string& text) const {
    return words_in(text) == 0 ? "there are no words" : all_.why_not_add(name);
  }

  /// Throws UserError if too few blocks are free; nothing has changed then. found(tokens, hashes,
  /// computed) is called between the lookup and the taking of slots.
  template <class Found>
  const Request& ask(Manager& manager, const std::string& name, std::vector<int32_t> tokens,
                     Hashes hashes, Found found) {
    const auto computed = manager.get_computed_blocks(tokens, hashes);
    const auto num_tokens = static_cast<int>(tokens.size());
    found(tokens, hashes, computed);
    if (!manager.allocate_slots(next_id_, num_tokens - computed.num_tokens, computed)) {
      too_few_blocks("ask " + name, manager.pool().num_free());
    }
    manager.cache_blocks(next_id_, tokens, hashes, num_tokens);
    return all_.add(name,
                    {{}, next_id_++, computed.num_tokens, std::move(tokens), std::move(hashes)});
  }
  void free(Manager& manager, const std::string& name) {
    manager.free(all_.at(name).id);
    all_.erase(name);
  }

  /// All requests, or while an engine runs requests in turn (Live::start_in_turn) the one that
  /// runs, with the id 0, as it runs alone.
  template <class Engine>
  std::vector<Request> now(const Live& live) const {
    if (!live.running()) return {all_.begin(), all_.end()};
    if (live.finished()) return {};
    const auto turn = static_cast<int>(live.current());
    const int num_cached_tokens = live.engine<Engine>().num_cached_tokens()[0];
    return {{{letters(turn), turn}, 0, num_cached_tokens, live.tokens(live.current()), {}}};
  }
  /// "A.tokens" and "A.cached" of each request.
  static void add_counters(std::vector<Counter>& counters, const std::vector<Request>& requests) {
    for (const Request& request : requests) {
      counters.push_back({request.name + ".tokens", std::ssize(request.tokens)});
      counters.push_back({request.name + ".cached", request.num_cached_tokens});
    }
  }

 private:
  NamedList<Request> all_;
  int64_t next_id_ = 0;
};

}  // namespace viz
