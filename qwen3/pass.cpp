#include "qwen3/pass.h"

#include <algorithm>
#include <bit>

#include "common/hash.h"
#include "kernels/attention/contract.h"

namespace kv {

void PassRows::add(size_t request, std::span<const int32_t> tokens, int num_computed,
                   bool wants_logits) {
  const auto end = static_cast<int>(tokens.size());
  token_ids.insert(token_ids.end(), tokens.begin() + num_computed, tokens.end());
  for (int position = num_computed; position < end; ++position) positions.push_back(position);
  first_row.push_back(num_rows());
  seq_len.push_back(end);
  if (!wants_logits) return;
  logit_rows.push_back(num_rows() - 1);
  requests.push_back(request);
}

void PassRows::extend_last(size_t request, std::span<const int32_t> tokens) {
  for (const int32_t token : tokens) {
    token_ids.push_back(token);
    positions.push_back(seq_len.back()++);
    logit_rows.push_back(first_row.back()++);
    requests.push_back(request);
  }
}

void PassRows::add_padding() {
  const int32_t token = 0;
  add(0, {&token, 1}, 0);
  requests.pop_back();
  ++num_padding;
}

int PassRows::max_rows_per_seq() const {
  int most = 0;
  for (int seq = 0; seq < num_seqs(); ++seq) most = std::max(most, num_rows_of(seq));
  return most;
}

int PassRows::max_seq_len() const {
  constexpr int64_t kGroup = attention::kGroupTokens;
  const int64_t longest = seq_len.empty() ? 0 : *std::max_element(seq_len.begin(), seq_len.end());
  return static_cast<int>(std::min<int64_t>((longest + kGroup - 1) / kGroup * kGroup, INT32_MAX));
}

void PassArrays::begin(const PassRows& rows) {
  packed_.clear();
  set_addresses_.clear();
  signature_.clear();
  replay_allowed_ = false;
  add(rows.token_ids, token_ids);
  add(rows.positions, positions);
  add(rows.first_row, first_row);
  add(rows.seq_len, seq_len);
  add(rows.logit_rows, logit_rows);
  launches_depend_on(static_cast<uint64_t>(rows.max_seq_len()));
}

size_t PassArrays::pack(const void* values, size_t bytes) {
  constexpr size_t kAlignment = 16;
  const size_t at = (packed_.size() + kAlignment - 1) / kAlignment * kAlignment;
  packed_.resize(at + bytes);
  if (bytes > 0) std::memcpy(packed_.data() + at, values, bytes);
  launches_depend_on(bytes);
  return at;
}

void PassArrays::upload() {
  upload_async<std::byte>(packed_, device_, *stream_);
  for (const auto& set_address : set_addresses_) set_address();
}

void* PassArrays::make_room(DeviceBuffer& buffer, size_t bytes) {
  if (buffer.bytes() < bytes) buffer = DeviceBuffer(stream_->device(), 2 * bytes);
  launches_depend_on(std::bit_cast<uintptr_t>(buffer.data()));
  return buffer.data();
}

void* PassArrays::workspace(size_t bytes) {
  if (stream_->device() == Device::kCpu) return nullptr;
  if (workspace_.bytes() < bytes) {
    workspace_ = DeviceBuffer(stream_->device(), bytes);
    fill_bytes(workspace_.data(), 0, bytes, *stream_);
  }
  launches_depend_on(std::bit_cast<uintptr_t>(workspace_.data()));
  return workspace_.data();
}

std::optional<uint64_t> PassArrays::graph_key() const {
  if (!replay_allowed_) return std::nullopt;
  std::vector<uint64_t> all = signature_;
  all.push_back(std::bit_cast<uintptr_t>(device_.data()));
  return xxh64_of<uint64_t>(all);
}

}  // namespace kv
