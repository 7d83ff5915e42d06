#pragma once

#include <string>

#include "instruments/replay/trace/trace_file.h"
#include "programs/options.h"

namespace replay {

/// How a trace is read and how fast its time runs: --block-size, --time-unit and --speed, alike in
/// every program that sends or simulates a trace's requests.
struct TraceOptions {
  int block_size = 0;  // tokens; 0: as the lines say, or Mooncake's
  std::string time_unit = "auto";
  double speed = 1;  // seconds of the trace in a second

  /// The options are refused without `other`, which says that there is a trace.
  void add_to(kv::CommandLine& command, const std::string& other);
};

}  // namespace replay
