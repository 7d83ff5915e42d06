#pragma once

// The values as a failing CHECK prints them: {1, 2, 3}, nothing, (4, 5) instead of {?}. To be
// included before the checks. For a type of your own, next to it: std::string readable(const Type&
// value).

#include <doctest/doctest.h>

#include <concepts>
#include <optional>
#include <ranges>
#include <string>
#include <utility>

namespace kvtest {

inline int g_max_shown = 64;  // elements of a list

template <class T>
concept Printable = doctest::detail::has_insertion_operator<T>::value;
template <class T>
concept List = std::ranges::input_range<const T> && !Printable<T>;
template <class T>
concept Described = requires(const T& value) {
  { readable(value) } -> std::convertible_to<std::string>;
};

template <class T>
std::string text_of(const T& value) {
  return doctest::toString(value).c_str();
}
inline std::string text_of(bool value) { return value ? "true" : "false"; }

}  // namespace kvtest

namespace doctest {

template <kvtest::Described T>
struct StringMaker<T> {
  static String convert(const T& value) { return std::string(readable(value)).c_str(); }
};

template <kvtest::List T>
requires(!kvtest::Described<T>) struct StringMaker<T> {
  static String convert(const T& list) {
    std::string text = "{";
    int n = 0;
    for (auto&& value : list) {
      if (n < kvtest::g_max_shown) text += (n > 0 ? ", " : "") + kvtest::text_of(value);
      ++n;
    }
    if (n > kvtest::g_max_shown) text += ", ... " + std::to_string(n) + " in all";
    return (text + "}").c_str();
  }
};

template <class T>
struct StringMaker<std::optional<T>> {
  static String convert(const std::optional<T>& value) {
    return value ? kvtest::text_of(*value).c_str() : "nothing";
  }
};

template <>
struct StringMaker<std::nullopt_t> {
  static String convert(std::nullopt_t) { return "nothing"; }
};

template <class A, class B>
struct StringMaker<std::pair<A, B>> {
  static String convert(const std::pair<A, B>& pair) {
    return ("(" + kvtest::text_of(pair.first) + ", " + kvtest::text_of(pair.second) + ")").c_str();
  }
};

}  // namespace doctest
