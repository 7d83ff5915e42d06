#pragma once

// Names and hues of what a page shows.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/table.h"

namespace viz {

inline constexpr int kNumHues = 8;  // that can be told apart; more begin again

struct SequenceView {
  std::string name;
  int hue = 0;
};

/// Refuses a command for which the pool has too few blocks.
[[noreturn]] inline void too_few_blocks(std::string_view command, int num_free) {
  kv::user_error("{}: too few blocks are free ({}); nothing has changed", command, num_free);
}

/// The words of a text, which spaces part.
inline std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
}
inline int words_in(const std::string& text) { return static_cast<int>(words_of(text).size()); }

/// 0: "A", 25: "Z", 26: "AA".
inline std::string letters(int index) {
  std::string name;
  for (int rest = index; rest >= 0; rest = rest / 26 - 1) {
    name.insert(name.begin(), static_cast<char>('A' + rest % 26));
  }
  return name;
}

/// Things with names, in the order in which they came. A name keeps its hue even if it goes and
/// comes again. A new name gets an unused hue as long as there is one. T is a SequenceView or
/// derives from it.
template <class T>
class NamedList {
 public:
  /// `kind` is for messages: "sequence".
  NamedList(std::string kind, size_t most) : kind_(std::move(kind)), most_(most) {}

  /// The reason why these names cannot be added now; empty if they can.
  std::string why_not_add(std::span<const std::string> names) const {
    if (things_.size() + names.size() > most_) {
      return fmt::format("there are {} of at most {}", things_.size(),
                         kv::count_of(static_cast<int64_t>(most_), kind_));
    }
    for (size_t i = 0; i < names.size(); ++i) {
      const std::string& name = names[i];
      const bool plain = std::ranges::all_of(name, [](char c) {
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
      });
      if (name.empty() || name.size() > 8 || !plain || name == "all") {
        return fmt::format("\"{}\" is no name: wanted 1 to 8 letters and digits, and not all",
                           name);
      }
      if (find(name) || std::ranges::count(names.first(i), name) > 0) {
        return fmt::format("there is a {} {} already", kind_, name);
      }
    }
    return {};
  }
  std::string why_not_add(const std::string& name) const { return why_not_add({&name, 1}); }

  T& add(const std::string& name, T thing) {
    const auto [known, fresh] = hues_.try_emplace(name, static_cast<int>(hues_.size()));
    const auto is_taken = [&, hue = &known->second] {
      return std::ranges::any_of(things_,
                                 [&](const T& one) { return (one.hue - *hue) % kNumHues == 0; });
    };
    while (fresh && things_.size() < kNumHues && is_taken()) ++known->second;
    thing.name = name;
    thing.hue = known->second;
    return things_.emplace_back(std::move(thing));
  }
  void erase(const std::string& name) {
    std::erase_if(things_, [&](const T& thing) { return thing.name == name; });
  }

  /// Null if there is no such thing.
  const T* find(std::string_view name) const {
    const auto found = std::ranges::find(things_, name, &T::name);
    return found == things_.end() ? nullptr : &*found;
  }
  /// Throws UserError, with the names that there are.
  const T& at(const std::string& name) const {
    if (const T* thing = find(name)) return *thing;
    if (things_.empty()) kv::user_error("there is no {} {}, nor any other", kind_, name);
    kv::user_error("there is no {} {}; there are {}", kind_, name, fmt::join(names(), ", "));
  }
  T& at(const std::string& name) {
    const T& thing = std::as_const(*this).at(name);
    return things_[static_cast<size_t>(&thing - things_.data())];
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const T& thing : things_) names.push_back(thing.name);
    return names;
  }
  /// The first `count` of A .. Z, AA .. that nothing has.
  std::vector<std::string> free_names(size_t count) const {
    std::vector<std::string> names;
    for (int i = 0; names.size() < count; ++i) {
      if (!find(letters(i))) names.push_back(letters(i));
    }
    return names;
  }
  std::string free_name() const { return free_names(1)[0]; }
  size_t size() const { return things_.size(); }
  bool empty() const { return things_.empty(); }
  auto begin() const { return things_.begin(); }
  auto end() const { return things_.end(); }
  auto begin() { return things_.begin(); }
  auto end() { return things_.end(); }

 private:
  std::string kind_;
  size_t most_;
  std::vector<T> things_;
  std::map<std::string, int> hues_;  // of all names that there were
};

/// Texts whose tokens are whole words, numbered as they come.
class Vocabulary {
 public:
  std::vector<int32_t> tokens(const std::string& text) {
    std::vector<int32_t> tokens;
    for (const std::string& word : words_of(text)) {
      const auto [entry, added] = ids_.emplace(word, static_cast<int32_t>(words_.size()));
      if (added) words_.push_back(word);
      tokens.push_back(entry->second);
    }
    return tokens;
  }
  /// Its number, if it is of no text.
  std::string word(int32_t token) const {
    const auto i = static_cast<size_t>(token);
    return i < words_.size() ? words_[i] : std::to_string(token);
  }
  std::string text(std::span<const int32_t> tokens) const {
    std::string text;
    for (const int32_t token : tokens) text += (text.empty() ? "" : " ") + word(token);
    return text;
  }

 private:
  std::map<std::string, int32_t> ids_;
  std::vector<std::string> words_;  // by token
};

}  // namespace viz
