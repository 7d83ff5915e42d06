#pragma once

// Traces of real servers, as Mooncake published them: a JSON object on each line,
//
//   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, ...]}
//
// hash_ids has a number for each block of the prompt. Equal numbers mean an equal prompt up to the
// end of that block, so a number names a whole prefix. Source: Mooncake (FAST '25), whose blocks
// have 512 tokens.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/console.h"
#include "instruments/replay/trace/trace_line.h"

namespace replay {

inline constexpr int kMooncakeBlockSize = 512;

/// The unit of timestamps. Mooncake's are whole milliseconds. Other traces have seconds, with
/// fractions: kUnknown refuses those, since no line says which it is.
enum class TimeUnit { kUnused, kUnknown, kMilliseconds, kSeconds };
/// "auto", "ms" or "s", as options have it.
TimeUnit time_unit_of(const std::string& name);

/// Requests as a cache sees them.
struct Batch {
  std::vector<uint64_t> ids;  // of the full blocks of all requests, one after the other
  std::vector<size_t> ends;   // [requests] where the ids of each one end
  struct Size {
    double timestamp = 0;  // milliseconds, whatever the trace has; -1 if the line has none
    int64_t input_tokens = 0, output_tokens = 0;
    std::optional<uint64_t> tail = {};  // the id of the last block, if that block is not full
  };
  std::vector<Size> sizes;  // [requests]

  void clear();
  std::span<const uint64_t> request(size_t i) const;
};

/// Reads a trace from its beginning to its end, plain or packed with gzip, and keeps one batch.
/// Every error is a UserError that names the file and the line.
class TraceReader {
 public:
  /// A block_size of 0 takes the size from the lines, or 512 if they have none. Throws UserError if
  /// there is no such file.
  explicit TraceReader(const std::filesystem::path& file, int block_size = 0,
                       TimeUnit unit = TimeUnit::kUnused);
  ~TraceReader();
  TraceReader(const TraceReader&) = delete;
  TraceReader& operator=(const TraceReader&) = delete;

  /// Fills the batch with the next requests. Returns false at the end. A file without any request
  /// is an error.
  bool next(Batch& batch);
  int block_size() const { return block_size_ > 0 ? block_size_ : kMooncakeBlockSize; }
  int64_t num_requests() const { return num_requests_; }
  int64_t num_tokens() const { return num_tokens_; }  // of all prompts
  /// Bytes read so far, and bytes of the file, to show progress.
  int64_t bytes_read() const;
  int64_t bytes() const { return bytes_; }

 private:
  bool read_line();
  bool read_more();
  void add_request(Batch& batch);
  double milliseconds() const;
  std::string where() const;

  std::string name_;
  void* file_ = nullptr;  // a gzFile
  int64_t bytes_ = 0;
  int block_size_;
  bool given_ = false;  // block_size_ was given to the constructor
  TimeUnit unit_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // of what is in the buffer and not in a line yet
  std::string text_;            // of the line
  TraceLine line_;
  int64_t line_number_ = 0;
  int64_t num_requests_ = 0;
  int64_t num_tokens_ = 0;
};

/// Writes a made-up trace in this format: system prompts that are asked for by Zipf's law,
/// conversations of several turns, bursts. Deterministic. Stops after Ctrl-C, at the end of a line.
void generate_trace(const kv::Console& out, int64_t num_requests, uint64_t seed, int block_size);

}  // namespace replay
