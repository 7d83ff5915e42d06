// "A window": PagedAttentionArgs::window lets a query see its last `window` tokens only, in the
// plain kernels. Waits as long as there is no such member. On CUDA, too, where there is a device.

#include "attend.h"
#include "common/base/todo.h"
#include "tests/support/readable.h"

using namespace lesson04_test;

namespace {

constexpr HeadShape kShape{4, 2, 64};

std::vector<kv::Device> devices() {
  std::vector<kv::Device> all{kv::Device::kCpu};
  if (kv::cuda_available()) all.push_back(kv::Device::kCuda);
  return all;
}

/// The last rows of a sequence, by the plain kernel, with a window.
template <class Args>
std::vector<float> with_window(const Sequence& s, int num_rows, int window, kv::Device device,
                               Args = {}) {
  if constexpr (requires(Args args) { args.window = 1; }) {
    Pass pass(kShape, {{&s, num_rows}}, {}, device);
    Args& args = pass.args;
    args.window = window;
    return pass.run(op_of(kv::Kernel::kPlain))[0];
  } else {
    KV_TODO("give PagedAttentionArgs an `int window`, 0 for none");
  }
}

std::vector<float> attend(const Sequence& s, int num_rows, int window, kv::Device device) {
  return with_window<lesson04::PagedAttentionArgs>(s, num_rows, window, device);
}

/// Tokens first .. end - 1 alone.
Sequence cut(const Sequence& s, int first, int end) {
  Sequence part(kShape, end - first, 1);
  const auto take = [&](kvtest::Rows& to, const kvtest::Rows& from, size_t width) {
    std::copy_n(from.begin() + first * static_cast<std::ptrdiff_t>(width), to.size(), to.begin());
  };
  take(part.q, s.q, kShape.q_width());
  take(part.k, s.k, kShape.kv_width());
  take(part.v, s.v, kShape.kv_width());
  return part;
}

}  // namespace

TEST_CASE("without a window, and with one as long as the sequence, the bits are the old ones") {
  const Sequence s(kShape, 100, 7);
  for (const kv::Device device : devices()) {
    INFO("on ", std::string(kv::name_of(device)));
    const std::vector<float> old = attend_with(kv::Kernel::kPlain, device)(kShape, {{&s, 100}})[0];
    for (const int window : {0, 100, 101, INT32_MAX}) {
      CAPTURE(window);
      CHECK(first_difference(attend(s, 100, window, device), old) == "");
    }
  }
}

TEST_CASE("a window of 64 changes nothing up to position 63") {
  const Sequence s(kShape, 64, 7);
  for (const kv::Device device : devices()) {
    INFO("on ", std::string(kv::name_of(device)));
    CHECK(first_difference(attend(s, 64, 64, device), attend(s, 64, 0, device)) == "");
  }
}

TEST_CASE("a query sees its last tokens, as many as the window has") {
  const Sequence s(kShape, 70, 7);
  for (const kv::Device device : devices()) {
    for (const int window : {1, 2, 16, 17, 64, 69}) {
      INFO("on ", std::string(kv::name_of(device)));
      CAPTURE(window);
      const std::vector<float> got = attend(s, 2, window, device);
      for (const int row : {0, 1}) {
        CAPTURE(row);
        const int end = 69 + row;  // its token is the last of these
        const Sequence seen = cut(s, end - window, end);
        const auto at = got.begin() + row * static_cast<std::ptrdiff_t>(kShape.q_width());
        const std::vector<float> out(at, at + static_cast<std::ptrdiff_t>(kShape.q_width()));
        CHECK(first_difference(out, attend(seen, 1, 0, device)) == "");
      }
    }
  }
}

TEST_CASE("what is before the window is not read") {
  Sequence s(kShape, 40, 7);
  const Sequence seen = cut(s, 32, 40);
  for (kvtest::Rows* rows : {&s.k, &s.v}) {
    std::fill_n(rows->begin(), 32 * kShape.kv_width(), kv::BFloat16{0xFFFF});  // NaN
  }
  for (const kv::Device device : devices()) {
    INFO("on ", std::string(kv::name_of(device)));
    CHECK(first_difference(attend(s, 1, 8, device), attend(seen, 1, 0, device)) == "");
  }
}
