#pragma once

// What a watcher has to say.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "common/base/console.h"
#include "watcher.h"

namespace lesson07::watch {

/// Tokens as a person reads them.
using Words = std::function<std::string(std::span<const int32_t>)>;

std::string batch_header();
/// A batch on one line.
std::string batch_line(const Watcher& watcher, const Frame& frame, const Watcher::Step& step);

/// All that was seen, and the longest prefixes that stand, `most_prefixes` of them.
void print_account(const kv::Console& console, const Watcher& watcher, size_t most_prefixes,
                   const Words& words);
nlohmann::json json_of(const Watcher& watcher);

}  // namespace lesson07::watch
