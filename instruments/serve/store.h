#pragma once

// The store that several servers share, as an option names it.

#include <memory>
#include <string>

#include "lessons/13_shared_tier/engine.h"

namespace serve {

/// "redis://:password@host:port", "unix:/path", or "memory": a store of this process. Says on
/// standard error if the store does not answer; it may do so later. Throws UserError for another
/// name, and for Redis in a build without hiredis.
std::shared_ptr<lesson13::BlockStore> open_store(const std::string& name);

/// "always", "never" or "quicker".
lesson11::LoadPolicy load_policy_of(const std::string& name);

}  // namespace serve
