#include "qwen3/token_chooser.h"

#include <fmt/format.h>

#include <stdexcept>

#include "common/error.h"
#include "common/table.h"
#include "kernels/argmax.h"

namespace kv {

void TokenChooser::check(int64_t id, const Request& request) const {
  const bool masks = request.min_tokens > 0 && !request.stop_token_ids.empty();
  if (on_device_ && request.num_logprobs >= 0) {
    user_error(
        "request {} wants log probabilities; the device chooses the largest logit, and no logits "
        "come to the host",
        id);
  }
  if (!on_device_ || (request.sampling.temperature == 0 && !masks)) return;
  user_error(
      "request {} has temperature {} and wants at least {}; the device chooses the largest logit, "
      "wanted 0 and 0",
      id, request.sampling.temperature, count_of(request.min_tokens, "token"));
}

void TokenChooser::run(const PassRows& rows, Attention& attention) {
  launch(rows, attention);
  fetch();
}

void TokenChooser::launch(const PassRows& rows, Attention& attention) {
  if (!on_device_) {
    logits_ = model_->forward(rows, attention);
    return;
  }
  model_->launch(rows, attention);
  host_seconds_ = Clock::now() - device_done_;
  chosen_.resize(rows.requests.size());
  if (chosen_.empty()) return;
  const size_t bytes = chosen_.size() * sizeof(int32_t);
  if (device_chosen_.bytes() < bytes) {
    device_chosen_ = DeviceBuffer(model_->device(), 2 * bytes);
  }
  kv::argmax({.logits = model_->device_logits(),
              .num_rows = static_cast<int>(chosen_.size()),
              .vocab_size = model_->config().vocab_size,
              .out = device_chosen()},
             model_->stream());
}

void TokenChooser::fetch() {
  if (!on_device_) return;
  if (!chosen_.empty()) {
    copy_to_host(chosen_.data(), device_chosen(), chosen_.size() * sizeof(int32_t),
                 model_->stream());
  }
  device_done_ = Clock::now();
}

int32_t TokenChooser::choose(const PassRows& rows, size_t logit_row, TokenStream& stream) const {
  if (!on_device_) {
    const size_t vocab = logits_.size() / rows.logit_rows.size();
    return stream.draw(logits_.subspan(logit_row * vocab, vocab));
  }
  if (chosen_[logit_row] >= 0) return chosen_[logit_row];
  throw std::logic_error(
      fmt::format("request {} wants the token of row {}, and the device has none",
                  rows.requests[logit_row], logit_row));
}

}  // namespace kv
