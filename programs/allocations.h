#pragma once

// A program that links kv::allocations counts its allocations, and can make one fail.

#include <cstdint>

namespace kv {

/// Calls of operator new so far.
int64_t num_allocations();

/// Makes the nth allocation from now on, counted from 1, throw std::bad_alloc, and all later ones
/// with `and_all_later`. 0 means that none fails.
void fail_allocation(int64_t nth, bool and_all_later = false);
/// For other calls that count as allocations, or stand in for them: true if this one has to fail.
bool fails_now();
/// True once one has failed since the last fail_allocation().
bool allocation_failed();

}  // namespace kv
