#include "drafter.h"

#include <algorithm>

#include "common/error.h"

namespace lesson09 {

NgramDrafter::NgramDrafter(const NgramOptions& options) : options_(options) {
  if (options.shortest < 1 || options.longest < options.shortest) {
    kv::user_error("n-grams of {} to {} tokens: wanted 1 or more, and the smaller number first",
                   options.shortest, options.longest);
  }
}

size_t find_continuation(std::span<const int32_t> tokens, const NgramOptions& options) {
  const size_t n = tokens.size();
  size_t found = n;
  auto longest_found = static_cast<size_t>(options.shortest) - 1;
  for (size_t end = 1; end < n; ++end) {
    const size_t max_length = std::min(end, static_cast<size_t>(options.longest));
    size_t length = 0;  // of the equal tokens before `end` and at the end of the text
    while (length < max_length && tokens[end - 1 - length] == tokens[n - 1 - length]) ++length;
    if (length <= longest_found) continue;
    found = end;
    longest_found = length;
    if (length == static_cast<size_t>(options.longest)) break;
  }
  return found;
}

std::vector<int32_t> NgramDrafter::propose(int64_t, std::span<const int32_t> tokens,
                                           int max_guesses) {
  const auto continuation = tokens.subspan(find_continuation(tokens, options_));
  const auto guesses = continuation.first(std::min<size_t>(continuation.size(), max_guesses));
  return {guesses.begin(), guesses.end()};
}

}  // namespace lesson09
