// Codes and scales in the host, in a file and in a store.

#include "tiers.h"

using namespace lesson14_test;

namespace {

kv::Model tiny() {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCpu);
  model.set_kv_format(kFp8);
  return model;
}

}  // namespace

TEST_CASE("blocks that go to the host and into a file come back with their scales") {
  kv::Model model = tiny();
  check_file(model, 16);
}

TEST_CASE("blocks that go into a store come back with their scales, on another server") {
  kv::Model model = tiny();
  check_store(model, 16);
}
