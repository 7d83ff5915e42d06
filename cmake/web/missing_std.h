#pragma once

// What the course uses of C++20 and the standard library of Debian 12's emscripten does not have
// yet. Read before every file of a web build, and empty where the library has it.

#include <version>

#if defined(__EMSCRIPTEN__) && !defined(__cpp_lib_bit_cast)
namespace std {
template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, from);
}
}  // namespace std
#endif

#if defined(__EMSCRIPTEN__) && !defined(__cpp_lib_ranges)
#include <algorithm>
#include <compare>
#include <functional>
#include <iterator>
#include <ranges>
#include <string>
#include <utility>

namespace std {
inline strong_ordering operator<=>(const string& a, const string& b) { return a.compare(b) <=> 0; }
}  // namespace std

_LIBCPP_BEGIN_NAMESPACE_STD
namespace ranges {
struct same {
  template <class T>
  constexpr T&& operator()(T&& x) const {
    return std::forward<T>(x);
  }
};
template <class Less, class By>
constexpr auto by(Less& less, By& projection) {
  return [&](const auto& a, const auto& b) {
    return static_cast<bool>(
        std::invoke(less, std::invoke(projection, a), std::invoke(projection, b)));
  };
}
struct ordered {
  template <class A, class B>
  constexpr bool operator()(const A& a, const B& b) const {
    return a < b;
  }
};
#define KV_IF(name)                                                           \
  template <class R, class Test, class By = same>                             \
  constexpr auto name(R&& range, Test test, By projection = {}) {             \
    return std::name(std::begin(range), std::end(range), [&](const auto& x) { \
      return std::invoke(test, std::invoke(projection, x));                   \
    });                                                                       \
  }
KV_IF(all_of)
KV_IF(any_of)
KV_IF(none_of)
KV_IF(count_if)
KV_IF(find_if)
#undef KV_IF
template <class R, class T, class By = same>
constexpr auto find(R&& range, const T& value, By projection = {}) {
  return std::find_if(std::begin(range), std::end(range),
                      [&](const auto& x) { return std::invoke(projection, x) == value; });
}
template <class R, class T, class By = same>
constexpr auto count(R&& range, const T& value, By projection = {}) {
  return std::count_if(std::begin(range), std::end(range),
                       [&](const auto& x) { return std::invoke(projection, x) == value; });
}
template <class A, class B, class Same = std::equal_to<>>
constexpr bool equal(A&& a, B&& b, Same same = {}) {
  return std::equal(std::begin(a), std::end(a), std::begin(b), std::end(b), same);
}
template <class R, class Less = ordered, class By = same>
constexpr void sort(R&& range, Less less = {}, By projection = {}) {
  std::sort(std::begin(range), std::end(range), by(less, projection));
}
template <class R, class Less = ordered, class By = same>
void stable_sort(R&& range, Less less = {}, By projection = {}) {
  std::stable_sort(std::begin(range), std::end(range), by(less, projection));
}
template <class R, class Middle, class Less = ordered, class By = same>
constexpr void partial_sort(R&& range, Middle middle, Less less = {}, By projection = {}) {
  std::partial_sort(std::begin(range), middle, std::end(range), by(less, projection));
}
template <class R, class Less = ordered, class By = same>
constexpr auto min_element(R&& range, Less less = {}, By projection = {}) {
  return std::min_element(std::begin(range), std::end(range), by(less, projection));
}
template <class R, class Less = ordered, class By = same>
constexpr auto max_element(R&& range, Less less = {}, By projection = {}) {
  return std::max_element(std::begin(range), std::end(range), by(less, projection));
}
template <class R, class T, class Less = ordered, class By = same>
constexpr auto upper_bound(R&& range, const T& value, Less less = {}, By projection = {}) {
  return std::upper_bound(
      std::begin(range), std::end(range), value,
      [&](const T& a, const auto& b) { return less(a, std::invoke(projection, b)); });
}
template <class R, class Out>
constexpr void copy(R&& range, Out out) {
  std::copy(std::begin(range), std::end(range), out);
}
template <class R, class Out>
constexpr void move(R&& range, Out out) {
  std::move(std::begin(range), std::end(range), out);
}
template <class R, class T>
constexpr void replace(R&& range, const T& from, const T& to) {
  std::replace(std::begin(range), std::end(range), from, to);
}
template <class R, class T>
constexpr void fill(R&& range, const T& value) {
  std::fill(std::begin(range), std::end(range), value);
}
template <class R, class Random>
void shuffle(R&& range, Random&& random) {
  std::shuffle(std::begin(range), std::end(range), random);
}
}  // namespace ranges
_LIBCPP_END_NAMESPACE_STD
#endif
