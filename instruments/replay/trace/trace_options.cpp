#include "instruments/replay/trace/trace_options.h"

namespace replay {

void TraceOptions::add_to(kv::CommandLine& command, const std::string& other) {
  command
      .value("--block-size N", block_size,
             "tokens of the trace's blocks; 0: as its lines say, or 512")
      .between(0, kMaxBlockSize)
      .needs(other);
  command
      .value("--time-unit UNIT", time_unit,
             "of the trace's timestamps: ms or s; auto: ms, and fractions are refused")
      .one_of({"auto", "ms", "s"})
      .needs(other);
  command.value("--speed F", speed, "seconds of the trace in a second").over(0, 1e6).needs(other);
}

}  // namespace replay
