#pragma once

// All cores for one loop. The split never changes a result: each index writes its own output.

#include <cstdint>
#include <functional>

namespace kv {

/// Number of threads parallel_for uses: KV_THREADS if set, else the cores it may use.
int num_threads();

/// Sets the number of threads (for tests that show that results do not depend on it).
void set_num_threads(int n);

/// Calls body(begin, end) for disjoint ranges that cover [0, n), on all threads, and waits.
/// `grain` is the smallest range worth a thread. An exception in a body is rethrown here.
void parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)>& body);

}  // namespace kv
