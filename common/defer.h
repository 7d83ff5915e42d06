#pragma once

// Runs a function when a scope ends, by a return or by an exception.

namespace kv {

/// Calls `f`, which must not throw, when the scope ends: const Defer free_blocks{[&] { ... }};
template <class F>
struct Defer {
  F f;
  ~Defer() { f(); }
};
template <class F>
Defer(F) -> Defer<F>;

}  // namespace kv
