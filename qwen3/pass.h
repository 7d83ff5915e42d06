#pragma once

// One forward pass: its rows as an engine composes them, and the arrays that kernels read.

#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "common/device.h"

namespace kv {

/// The rows of one pass, sequence after sequence. The rows of a sequence are tokens that are known
/// but not computed yet.
struct PassRows {
  std::vector<int32_t> token_ids;  // [num_rows]
  std::vector<int32_t> positions;  // [num_rows], of the row in its own sequence
  std::vector<int32_t> first_row = {
      0};                           // [num_seqs + 1], sequence i has first_row[i] .. [i + 1] - 1
  std::vector<int32_t> seq_len;     // [num_seqs], tokens up to and with the sequence's last row
  std::vector<int32_t> logit_rows;  // rows whose logits are wanted, ascending
  std::vector<size_t> requests;     // logit row i predicts the next token of requests[i]
  int num_padding = 0;              // rows of padding, the last ones

  /// Adds tokens[num_computed] .. tokens.back() of a request as one sequence. Its last row predicts
  /// the request's next token. A chunk in the middle of a prompt needs no logits.
  void add(size_t request, std::span<const int32_t> tokens, int num_computed,
           bool wants_logits = true);
  /// Extends the sequence added last by one row for each of `tokens`, which may be guesses. Each of
  /// these rows predicts a token of the request, too.
  void extend_last(size_t request, std::span<const int32_t> tokens);
  /// Adds a sequence of one token whose logits are never read, so that the pass has a round number
  /// of rows. Padding comes last.
  void add_padding();

  int num_rows() const { return static_cast<int>(token_ids.size()); }
  int num_seqs() const { return static_cast<int>(seq_len.size()); }
  int num_rows_of(int seq) const {
    const auto i = static_cast<size_t>(seq);
    return first_row[i + 1] - first_row[i];
  }
  int max_rows_per_seq() const;
  /// Longest seq_len, rounded up to a group of attention keys, so that grid sizes (and the captured
  /// CUDA graph) stay valid for that many steps.
  int max_seq_len() const;
};

/// A pass's arrays on the device: its rows, and the arrays that an attention adds (tables, slots).
/// begin() and any number of add() calls pack them on the host, and upload() copies all of them at
/// once. The addresses stay the same from pass to pass as long as the sizes do.
class PassArrays {
 public:
  explicit PassArrays(const Stream& stream) : stream_(&stream) {}

  /// Begins a new pass and forgets the arrays of the last one.
  void begin(const PassRows& rows);
  /// Packs a copy of `values`; upload() sets `device` to its address.
  template <typename T>
  void add(const std::vector<T>& values, const T*& device) {
    const size_t at = pack(values.data(), values.size() * sizeof(T));
    set_addresses_.push_back(
        [this, at, &device] { device = reinterpret_cast<const T*>(device_.as<std::byte>() + at); });
  }
  void upload();

  /// Adds a number that launches of this pass get by value to the graph's key. Sizes and bounds in
  /// PassRows, the arrays' addresses and sizes, and anything that an attention never changes are
  /// covered already.
  void launches_depend_on(uint64_t value) { signature_.push_back(value); }
  /// Makes `buffer` at least so large, and then twice as large: sequences grow with each pass.
  void* make_room(DeviceBuffer& buffer, size_t bytes);
  /// CUDA only (null on the CPU): at least `bytes` for the partial results of attention, shared by
  /// all passes of a model. It is zero at first, and the kernels leave its counters at zero.
  void* workspace(size_t bytes);
  /// Lets a CUDA graph replay this pass. The caller promises that the launches depend only on the
  /// numbers given to launches_depend_on() and on those it covers already.
  void allow_replay() { replay_allowed_ = true; }
  /// Call after upload(). Equal keys mean equal launches (kernels, grids, arguments). Empty if the
  /// pass must not be replayed.
  std::optional<uint64_t> graph_key() const;

  // On the device, as in PassRows.
  const int32_t* token_ids = nullptr;
  const int32_t* positions = nullptr;
  const int32_t* first_row = nullptr;
  const int32_t* seq_len = nullptr;
  const int32_t* logit_rows = nullptr;

 private:
  size_t pack(const void* values, size_t bytes);

  const Stream* stream_;
  std::vector<std::byte> packed_;  // the arrays of this pass, one after the other
  DeviceBuffer device_;            // a copy of them
  DeviceBuffer workspace_;
  std::vector<std::function<void()>> set_addresses_;  // what upload() does for each add()
  std::vector<uint64_t> signature_;                   // sizes, and numbers that launches get
  bool replay_allowed_ = false;
};

}  // namespace kv
