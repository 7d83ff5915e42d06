#include "instruments/route/cache_mirror.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/utf8.h"

namespace route {
namespace {

using nlohmann::json;

constexpr size_t kMaxUnread = size_t{64} << 20;

uint64_t hash_of(const json& text) {
  const auto& hex = text.get_ref<const std::string&>();
  uint64_t hash = 0;
  const auto [stop, error] = std::from_chars(hex.data(), hex.data() + hex.size(), hash, 16);
  if (error != std::errc() || stop != hex.data() + hex.size()) {
    kv::user_error("a block's hash is {}, wanted 16 hexadecimal digits", kv::quote(hex));
  }
  return hash;
}

}  // namespace

std::string CacheMirror::begin_stream() {
  unread_.clear();
  held_.clear();
  state_ = last_ >= 1 && !last_text_.empty() ? State::kReplay : State::kSnapshot;
  return state_ == State::kReplay ? std::to_string(last_ - 1) : std::string();
}

void CacheMirror::take(std::string_view bytes) {
  unread_ += bytes;
  if (unread_.size() > kMaxUnread) kv::user_error("an event without an end");
  size_t begin = 0;
  for (size_t end; (end = unread_.find("\n\n", begin)) != unread_.npos; begin = end + 2) {
    const size_t data = unread_.find("data: ", begin);
    if (data < end) take_event(unread_.substr(data + 6, end - data - 6));
  }
  unread_.erase(0, begin);
}

void CacheMirror::take_event(const std::string& text) {
  if (state_ == State::kReplay) {
    // Its time stamp is part of the text, so that no other server's event is the same.
    if (text == last_text_) {
      state_ = State::kExact;
      ++num_replays_;
      return;
    }
    give_up_replay();
  }
  if (state_ == State::kExact) {
    apply(text);
  } else {
    held_.push_back(text);
  }
}

/// An event that is not the next one shows a gap: then nothing is certain before a snapshot.
void CacheMirror::apply(const std::string& text) {
  const json event = json::parse(text);
  const auto seq = event.at("seq").get<int64_t>();
  if (seq != last_ + 1) {
    state_ = State::kSnapshot;
    held_.push_back(text);
    return;
  }
  for (const json& one : event.at("events")) {
    const auto& type = one.at("type").get_ref<const std::string&>();
    if (type == "AllBlocksCleared") copies_.clear();
    if (type != "BlockStored" && type != "BlockRemoved") continue;
    for (const json& block : one.at("block_hashes")) {
      const uint64_t hash = hash_of(block);
      if (type == "BlockStored") {
        ++copies_[hash];
      } else if (const auto found = copies_.find(hash); found != copies_.end()) {
        if (--found->second == 0) copies_.erase(found);
      }
    }
  }
  last_ = seq;
  last_text_ = text;
}

void CacheMirror::take_snapshot(std::string_view text) {
  const json snapshot = json::parse(text);
  copies_.clear();
  for (const json& block : snapshot.at("blocks")) {
    copies_[hash_of(block.at("hash"))] = block.at("copies").get<int>();
  }
  last_ = snapshot.at("seq").get<int64_t>();
  last_text_.clear();
  block_size_ = snapshot.at("block_size").get<int>();
  pool_blocks_ = snapshot.at("num_blocks").get<int64_t>();
  ++num_snapshots_;
  state_ = State::kExact;
  for (const std::string& event : std::exchange(held_, {})) {
    const bool in_snapshot = json::parse(event).at("seq").get<int64_t>() <= last_;
    if (state_ != State::kExact) {
      held_.push_back(event);
    } else if (!in_snapshot) {
      apply(event);
    }
  }
}

void CacheMirror::give_up_replay() {
  if (state_ != State::kReplay) return;
  ++num_restarts_;
  clear();
}

void CacheMirror::clear() {
  copies_.clear();
  last_ = -1;
  last_text_.clear();
  held_.clear();
  state_ = State::kSnapshot;
}

}  // namespace route
