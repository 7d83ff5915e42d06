#pragma once

// One line of a trace.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace replay {

inline constexpr int64_t kMaxBlockSize = int64_t{1} << 20;

struct TraceLine {
  double timestamp = -1;  // milliseconds; -1 if the line has none
  int64_t input_length = 0, output_length = 0;
  int64_t block_size = 0;  // 0 if the line has none
  std::vector<uint64_t> hash_ids;
};

/// Fills `line`. Throws a UserError that begins with `where` for a line of another format.
void parse_trace_line(std::string_view text, const std::string& where, TraceLine& line);

}  // namespace replay
