#pragma once

// A watcher's account of the events, as text and as JSON.

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "common/console.h"
#include "instruments/watch/watcher.h"

namespace watch {

/// Tokens as text for a person.
using Words = std::function<std::string(std::span<const int32_t>)>;

std::string batch_header();
/// A line for a batch, under batch_header(); then the note, if there is one.
std::string batch_line(const Watcher& watcher, const Frame& frame, const Watcher::Step& step);

/// The totals, and the longest prefixes in the cache, at most `max_prefixes`.
void print_account(const kv::Console& console, const Watcher& watcher, size_t max_prefixes,
                   const Words& words);
nlohmann::json json_of(const Watcher& watcher);

}  // namespace watch
