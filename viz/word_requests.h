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

  /// Throws UserError if too few blocks are free; nothing has changed then. found(tokens, computed)
  /// is called between the lookup and the taking of slots.
  template <class Found>
  const Request& ask(Manager& manager, const std::string& name, std::vector<int32_t> tokens,
                     Hashes hashes, Found found) {
    const auto computed = manager.get_computed_blocks(tokens, hashes);
    const auto num_tokens = static_cast<int>(tokens.size());
    found(tokens, computed);
    if (!manager.allocate_slots(next_id_, num_tokens - computed.num_tokens, computed)) {
      kv::user_error("ask {}: too few blocks are free ({}); nothing has changed", name,
                     manager.pool().num_free());
    }
    manager.cache_blocks(next_id_, tokens, hashes, num_tokens);
    return all_.add(name,
                    {{}, next_id_++, computed.num_tokens, std::move(tokens), std::move(hashes)});
  }
  void free(Manager& manager, const std::string& name) {
    manager.free(all_.at(name).id);
    all_.erase(name);
  }

  /// What there is while an engine runs requests in turn (Live::start_in_turn): the one that runs,
  /// with the id 0, as it runs alone.
  static std::vector<Request> running(const Live& live, int num_cached_tokens) {
    const auto turn = static_cast<int>(live.current());
    return {{{letters(turn), turn}, 0, num_cached_tokens, live.tokens(live.current()), {}}};
  }

 private:
  NamedList<Request> all_;
  int64_t next_id_ = 0;
};

}  // namespace viz
