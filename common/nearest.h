#pragma once

// Guesses at a mistyped name.

#include <span>
#include <string>

namespace kv {

/// The name that `word` was meant to be, or "". At most a third of its letters is wrong, or its end
/// is missing. Dashes before an option's name are no letters.
std::string nearest(const std::string& word, std::span<const std::string> names);

}  // namespace kv
