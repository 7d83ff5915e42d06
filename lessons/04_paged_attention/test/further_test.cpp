// "Sinks": PagedAttentionArgs::sinks lets a query see the first `sinks` tokens besides its window,
// in the plain kernels. Skipped as long as there is no such member. On CUDA, too, where there is a
// device.

#include "attend.h"
#include "common/todo.h"
#include "tests/support/readable.h"

using namespace lesson04_test;

namespace {

constexpr HeadShape kShape{4, 2, 64};

std::vector<kv::Device> devices() {
  std::vector<kv::Device> all{kv::Device::kCpu};
  if (kv::cuda_available()) all.push_back(kv::Device::kCuda);
  return all;
}

struct Seen {
  int window, sinks;
};

/// The last rows of a sequence, by the plain kernel, with a window and sinks.
template <class Args>
std::vector<float> with_sinks(const Sequence& s, int num_rows, Seen seen, kv::Device device,
                              Args = {}) {
  if constexpr (requires(Args args) { args.sinks = 1; }) {
    Pass pass(kShape, {{&s, num_rows}}, {}, device);
    Args& args = pass.args;
    args.window = seen.window;
    args.sinks = seen.sinks;
    return pass.run(op_of(kv::Kernel::kPlain))[0];
  } else {
    KV_TODO("give PagedAttentionArgs an `int sinks`, 0 for none");
  }
}

std::vector<float> attend(const Sequence& s, int num_rows, Seen seen, kv::Device device) {
  return with_sinks<lesson04::PagedAttentionArgs>(s, num_rows, seen, device);
}

/// The first `sinks` tokens and the last `window` ones alone.
Sequence what_is_seen(const Sequence& s, Seen seen) {
  Sequence part(kShape, seen.sinks + seen.window, 1);
  const auto take = [&](kvtest::Rows& to, const kvtest::Rows& from, size_t width) {
    const auto n = [width](int tokens) { return static_cast<std::ptrdiff_t>(width) * tokens; };
    std::copy_n(from.begin(), n(seen.sinks), to.begin());
    std::copy_n(from.end() - n(seen.window), n(seen.window), to.begin() + n(seen.sinks));
  };
  take(part.q, s.q, kShape.q_width());
  take(part.k, s.k, kShape.kv_width());
  take(part.v, s.v, kShape.kv_width());
  return part;
}

}  // namespace

TEST_CASE("sinks change no bit where there is no window, or where it sees them anyway") {
  const Sequence s(kShape, 100, 7);
  for (const kv::Device device : devices()) {
    INFO("on ", std::string(kv::name_of(device)));
    const std::vector<float> old = attend_with(kv::Kernel::kPlain, device)(kShape, {{&s, 100}})[0];
    for (const Seen seen : {Seen{0, 0}, {0, 4}, {100, 4}, {INT32_MAX, 100}, {1, 100}, {1, 1000}}) {
      CAPTURE(seen.window);
      CAPTURE(seen.sinks);
      CHECK(first_difference(attend(s, 100, seen, device), old) == "");
    }
  }
}

TEST_CASE("without sinks a window is what it was") {
  const Sequence s(kShape, 70, 7);
  for (const kv::Device device : devices()) {
    INFO("on ", std::string(kv::name_of(device)));
    const auto old = attend_with(kv::Kernel::kPlain, device, {.window = 16})(kShape, {{&s, 70}})[0];
    CHECK(first_difference(attend(s, 70, {16, 0}, device), old) == "");
  }
}

TEST_CASE("a query sees the first tokens and its window, each token once") {
  const Sequence s(kShape, 70, 7);
  for (const kv::Device device : devices()) {
    for (const Seen seen : {Seen{1, 1}, {16, 4}, {17, 15}, {64, 5}, {60, 10}}) {
      INFO("on ", std::string(kv::name_of(device)));
      CAPTURE(seen.window);
      CAPTURE(seen.sinks);
      const Sequence part = what_is_seen(s, seen);
      const auto want = attend_with(kv::Kernel::kPlain, device)(kShape, {{&part, 1}})[0];
      CHECK(first_difference(attend(s, 1, seen, device), want) == "");
    }
  }
}

TEST_CASE("what is between the sinks and the window is not read") {
  Sequence s(kShape, 40, 7);
  const Seen seen{8, 4};
  const Sequence part = what_is_seen(s, seen);
  for (kvtest::Rows* rows : {&s.k, &s.v}) {
    const auto at = [](int token) {
      return token * static_cast<std::ptrdiff_t>(kShape.kv_width());
    };
    std::fill(rows->begin() + at(4), rows->begin() + at(32), kv::BFloat16{0xFFFF});  // NaN
  }
  for (const kv::Device device : devices()) {
    INFO("on ", std::string(kv::name_of(device)));
    const auto want = attend_with(kv::Kernel::kPlain, device)(kShape, {{&part, 1}})[0];
    CHECK(first_difference(attend(s, 1, seen, device), want) == "");
  }
}
