#pragma once

// One forward pass: its rows as an engine composes them, and what kernels read about them.

#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "common/base/device.h"

namespace kv {

/// The rows of one pass, sequence after sequence: of each one its tokens that are known but not
/// computed.
struct PassRows {
  std::vector<int32_t> token_ids;  // [num_rows]
  std::vector<int32_t> positions;  // [num_rows], of the row in its own sequence
  std::vector<int32_t> first_row = {
      0};                           // [num_seqs + 1], sequence i has first_row[i] .. [i + 1] - 1
  std::vector<int32_t> seq_len;     // [num_seqs], tokens up to and with the sequence's last row
  std::vector<int32_t> logit_rows;  // rows whose logits are wanted, ascending
  std::vector<size_t> requests;     // logit row i predicts the next token of requests[i]

  /// Adds tokens[num_computed] .. tokens.back() of a request as one sequence. Its last row predicts
  /// the request's next token; a chunk in the middle of a prompt wants no logits.
  void add(size_t request, std::span<const int32_t> tokens, int num_computed,
           bool wants_logits = true);
  /// Adds a sequence of one token whose logits nobody looks at, for a pass of a round number of
  /// rows. Padding comes last.
  void add_padding();

  int num_rows() const { return static_cast<int>(token_ids.size()); }
  int num_seqs() const { return static_cast<int>(seq_len.size()); }
  int num_rows_of(int seq) const {
    const auto i = static_cast<size_t>(seq);
    return first_row[i + 1] - first_row[i];
  }
  int max_rows_per_seq() const;
  /// A bound of seq_len, in whole groups of attention's keys: what is sized by it stays as it is
  /// for as many steps.
  int max_seq_len() const;
};

/// What of a pass lives on the device: its rows, and what an attention adds (tables, slots). It is
/// packed on the host, then one copy carries all of it: begin(), add() as often as wanted,
/// upload(). The addresses are the same from pass to pass as long as the sizes are.
class PassArrays {
 public:
  explicit PassArrays(const Stream& stream) : stream_(&stream) {}

  /// A new pass. Forgets the arrays of the last one.
  void begin(const PassRows& rows);
  /// Packs a copy of `values`; upload() sets `device` to its address.
  template <typename T>
  void add(const std::vector<T>& values, const T*& device) {
    const size_t at = pack(values.data(), values.size() * sizeof(T));
    after_upload([this, at, &device](const Stream&) {
      device = reinterpret_cast<const T*>(device_.as<std::byte>() + at);
    });
  }
  /// Work on the arrays that is queued right after them, in the order of these calls.
  using Work = std::function<void(const Stream& stream)>;
  void after_upload(Work work) { after_upload_.push_back(std::move(work)); }
  void upload();

  /// Names a number that launches of this pass get by value. What follows from sizes and bounds in
  /// PassRows, the arrays' addresses and sizes, and what an attention never changes need not be
  /// named.
  void launches_depend_on(uint64_t value) { signature_.push_back(value); }
  /// Makes `buffer` at least so large, and then twice as large: sequences grow with each pass.
  void* make_room(DeviceBuffer& buffer, size_t bytes);
  /// CUDA only (null on the CPU): `buffer` with at least `bytes`, zeros when it is new, for kernels
  /// that leave it as they found it.
  void* zeroed_workspace(DeviceBuffer& buffer, size_t bytes);
  /// A CUDA graph may replay this pass: its launches depend on nothing but what is named here.
  void allow_replay() { replay_allowed_ = true; }
  /// After upload(): equal keys mean equal launches (kernels, grids, arguments). No value: do not
  /// replay.
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
  std::vector<Work> after_upload_;
  std::vector<uint64_t> signature_;  // sizes, and what else launches depend on
  bool replay_allowed_ = false;
};

}  // namespace kv
