// Changes that make another model, and changes that do not.

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <string>

#include "qwen3/fingerprint.h"
#include "tests/support/random_model.h"
#include "tests/support/temp_dir.h"

namespace {

bool other_library = false;  // whose expf rounds some numbers differently

}  // namespace

// The linker finds this before the one of the system.
extern "C" float expf(float x) noexcept {
  static const auto next = reinterpret_cast<float (*)(float)>(::dlsym(RTLD_NEXT, "expf"));
  const float e = next(x);
  return other_library && x < -3 ? std::nextafter(e, 1.0f) : e;
}

namespace {

using kv::fingerprint_of;

uint64_t of(const std::filesystem::path& dir, const std::function<void(kv::Model&)>& change = {},
            kv::KvFormat pages = kv::KvFormat::kActivations) {
  kv::Model model = kv::Model::load(dir, kv::Device::kCpu);
  if (change) change(model);
  return fingerprint_of(model, pages);
}

}  // namespace

TEST_CASE("a model has one fingerprint, and with any other weight another one") {
  const kvtest::TempDir dir;
  const kvtest::RandomModel shape{.tied = false};
  kvtest::Tensors tensors = kvtest::random_tensors(shape);
  kvtest::write_model(dir.path(), shape, tensors);
  const uint64_t first = of(dir.path());
  CHECK(of(dir.path()) == first);
  std::set<uint64_t> seen = {first};
  for (auto& one : tensors) {
    auto& tensor = one.second;
    for (const size_t at : {size_t{0}, tensor.bytes.size() - 2}) {
      tensor.bytes[at] ^= std::byte{1};
      kvtest::write_model(dir.path(), shape, tensors);
      CAPTURE(one.first);
      CHECK(seen.insert(of(dir.path())).second);
      tensor.bytes[at] ^= std::byte{1};
    }
  }
  kvtest::write_model(dir.path(), shape, tensors);
  CHECK(of(dir.path()) == first);
}

TEST_CASE("what the weights do not say is in the fingerprint, too") {
  const kvtest::TempDir dir;
  kvtest::RandomModel shape;
  const kvtest::Tensors tensors = kvtest::random_tensors(shape);
  kvtest::write_model(dir.path(), shape, tensors);
  const uint64_t first = of(dir.path());
  std::set<uint64_t> seen = {first};
  CHECK(seen.insert(of(dir.path(), [](kv::Model& m) { m.set_kernel(kv::Kernel::kPlain); })).second);
  const auto rounds = [](kv::Model& m) { m.set_kv_format(kv::KvFormat::kFp8); };
  CHECK(seen.insert(of(dir.path(), rounds)).second);
  CHECK(seen.insert(of(dir.path(), rounds, kv::KvFormat::kFp8)).second);
  CHECK(seen.insert(of(dir.path(), [](kv::Model& m) { m.set_windows({0, 8}); })).second);
  CHECK(seen.insert(of(dir.path(), [](kv::Model& m) { m.set_windows({8, 0}); })).second);
  CHECK(of(dir.path(), [](kv::Model& m) { m.set_windows({0, 0}); }) == first);
  shape.rope_theta = 10001.0;
  kvtest::write_config(dir.path(), shape);
  CHECK(seen.insert(of(dir.path())).second);
  shape.rope_theta = 10000.0;
  kvtest::write_config(dir.path(), shape);
  std::string config;
  {
    std::ifstream in(dir.path() / "config.json");
    config.assign(std::istreambuf_iterator<char>(in), {});
  }
  const size_t eps = config.find("1e-06");
  REQUIRE(eps != std::string::npos);
  std::ofstream(dir.path() / "config.json") << config.replace(eps, 5, "2e-06");
  CHECK(seen.insert(of(dir.path())).second);
  shape.max_position_embeddings = 2048;  // limits requests, and changes no K or V
  kvtest::write_config(dir.path(), shape);
  CHECK(of(dir.path()) == first);
}

TEST_CASE("on the CPU a C library that rounds differently has another fingerprint") {
  const kvtest::TempDir dir;
  const kvtest::RandomModel shape;
  kvtest::write_model(dir.path(), shape, kvtest::random_tensors(shape));
  const uint64_t first = of(dir.path());
  other_library = true;
  CHECK(of(dir.path()) != first);
  other_library = false;
  CHECK(of(dir.path()) == first);
}
