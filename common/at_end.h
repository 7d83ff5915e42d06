#pragma once

// Runs a function when a scope ends, by a return or by an exception.

namespace kv {

/// Calls `f`, which must not throw, when the scope ends: const AtEnd free_blocks{[&] { ... }};
template <class F>
struct AtEnd {
  F f;
  ~AtEnd() { f(); }
};
template <class F>
AtEnd(F) -> AtEnd<F>;

}  // namespace kv
