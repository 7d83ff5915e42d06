#pragma once

// The simplest store: one in this process.

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "../block_store.h"

namespace lesson13 {

/// A store in this process, for servers of any threads. When it is full the value goes that was
/// put or read longest ago.
class MemoryStore final : public BlockStore {
 public:
  explicit MemoryStore(size_t max_bytes = SIZE_MAX) : max_bytes_(max_bytes) {}

  std::optional<size_t> find(std::span<const BlockName> names) override {
    const std::lock_guard lock(mutex_);
    size_t count = 0;
    while (count < names.size() && values_.contains(names[count])) ++count;
    return count;
  }
  void get(std::span<const BlockName> names, const OnValue& on_value) override {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < names.size(); ++i) {
      const auto found = values_.find(names[i]);
      if (found == values_.end()) return;
      found->second.last_use = ++clock_;
      on_value(i, found->second.value);
    }
  }
  bool put(const BlockName& name, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    if (value.size() > max_bytes_) return false;
    std::string copy(value);
    Entry& entry = values_[name];
    bytes_ += copy.size() - entry.value.size();
    entry = {std::move(copy), ++clock_};
    while (bytes_ > max_bytes_) evict();
    return true;
  }

  struct Entry {
    std::string value;
    uint64_t last_use = 0;
  };
  /// Only while no other thread uses the store.
  const std::map<BlockName, Entry>& values() const { return values_; }
  void erase(const BlockName& name) {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(name);
    if (found == values_.end()) return;
    bytes_ -= found->second.value.size();
    values_.erase(found);
  }

 private:
  void evict() {
    auto oldest = values_.begin();
    for (auto entry = values_.begin(); entry != values_.end(); ++entry) {
      if (entry->second.last_use < oldest->second.last_use) oldest = entry;
    }
    bytes_ -= oldest->second.value.size();
    values_.erase(oldest);
  }

  std::mutex mutex_;  // guards everything below
  std::map<BlockName, Entry> values_;
  size_t max_bytes_, bytes_ = 0;
  uint64_t clock_ = 0;
};

}  // namespace lesson13
