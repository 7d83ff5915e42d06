#pragma once

// Runs the model for a server: a pass, and a token from each row of its logits.

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "common/device.h"
#include "qwen3/generation.h"
#include "qwen3/model.h"

namespace kv {

/// Runs a pass and chooses a token from each row of its logits. On the host it draws with the
/// request's sampling parameters; on the device it takes the largest logit.
class TokenChooser {
 public:
  /// Borrows the model.
  TokenChooser(Model& model, bool on_device) : model_(&model), on_device_(on_device) {}
  bool on_device() const { return on_device_; }
  /// Throws UserError for a request that the device cannot choose tokens for.
  void check(int64_t id, const Request& request) const;

  /// A pass: launch(), then fetch().
  void run(const PassRows& rows, Attention& attention);
  void launch(const PassRows& rows, Attention& attention);
  void fetch();

  /// The token chosen from a row of logits; `stream` belongs to the row's request. Throws
  /// std::logic_error if the device marked the row's token as rejected (-1).
  int32_t choose(const PassRows& rows, size_t logit_row, TokenStream& stream) const;

  // With on_device:
  int32_t* device_chosen() { return device_chosen_.as<int32_t>(); }  // [logit rows], until fetch()
  std::span<const int32_t> chosen() const { return chosen_; }        // [logit rows], after it
  /// Seconds that the host worked while the device was idle, from a fetch() to the end of the next
  /// launch().
  double host_seconds() const { return host_seconds_.count(); }

 private:
  using Clock = std::chrono::steady_clock;
  Model* model_;
  bool on_device_;
  std::span<const float> logits_;  // [logit rows, vocab_size]
  DeviceBuffer device_chosen_;     // int32 [logit rows]
  std::vector<int32_t> chosen_;    // [logit rows]
  Clock::time_point device_done_ = Clock::now();
  std::chrono::duration<double> host_seconds_{0};
};

}  // namespace kv
