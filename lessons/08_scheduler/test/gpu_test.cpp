// Lesson 08 on a GPU: slots from tables, mixed passes, preemption and resumption give the bits of
// lesson 02.

#include <doctest/doctest.h>

#include <random>
#include <vector>

#include "compute_slot_mapping.h"
#include "engine.h"
#include "lessons/02_flat_cache/engine.h"
#include "slots.h"
#include "tests/support/shipped_model.h"

using kvtest::request_of;

TEST_CASE("slots from tables on the GPU are those of the tables on the host") {
  const kv::Stream stream(kv::Device::kCuda);
  std::mt19937 rng(1);
  for (const int block_size : {1, 16, 256}) {
    for (const int num_seqs : {0, 1, 2, 3, 7, 64, 300}) {
      CAPTURE(block_size);
      CAPTURE(num_seqs);
      const SlotsCase c(num_seqs, block_size, rng);
      const auto first_row = kv::to_device<int32_t>(c.rows.first_row, stream);
      const auto seq_len = kv::to_device<int32_t>(c.rows.seq_len, stream);
      const auto tables = kv::to_device<int32_t>(c.tables, stream);
      std::vector<int64_t> slots(c.slots.size() + 1, -7);  // and one after them
      const auto out = kv::to_device<int64_t>(slots, stream);
      lesson08::compute_slot_mapping_cuda({.first_row = first_row.as<int32_t>(),
                                           .seq_len = seq_len.as<int32_t>(),
                                           .block_tables = tables.as<int32_t>(),
                                           .num_seqs = num_seqs,
                                           .num_rows = c.rows.first_row.back(),
                                           .max_blocks_per_seq = SlotsCase::kWidth,
                                           .block_size = block_size,
                                           .slot_mapping = out.as<int64_t>()},
                                          stream);
      kv::copy_to_host(slots.data(), out.data(), slots.size() * sizeof(int64_t), stream);
      CHECK(slots.back() == -7);
      slots.pop_back();
      CHECK(slots == c.slots);
    }
  }
}

TEST_CASE("padded passes and tokens chosen on the GPU change nothing") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  std::vector<kv::Request> requests;
  for (int i = 0; i < 21; ++i) requests.push_back(request_of(3 + i * 5, 1 + (i * 7) % 40, i));
  const auto flat = lesson02::make_engine(model, {})->generate(requests);
  for (const bool on_device : {false, true}) {
    CAPTURE(on_device);
    lesson08::ServingEngine engine(model, {.num_blocks = 60},
                                   {.choose_on_device = on_device, .pad_decodes_to = 8});
    const auto result = engine.serve(requests, {});
    for (size_t i = 0; i < requests.size(); ++i) {
      CHECK(result.generated.completions[i].tokens == flat.completions[i].tokens);
      if (on_device) continue;
      CHECK(result.generated.completions[i].logits_xxh64 == flat.completions[i].logits_xxh64);
    }
  }
}

TEST_CASE("ragged passes, small pools and chunks change no bit on CUDA") {
  kv::Model model = kv::Model::load(KV_SOURCE_DIR "/models/tiny", kv::Device::kCuda);
  std::vector<kv::Request> requests;
  std::vector<lesson08::Arrival> arrivals;
  for (int i = 0; i < 24; ++i) {
    kv::Request request = request_of(i % 2 == 0 ? 40 : 0, 1 + i % 13);
    const kv::Request own = request_of(1 + (i * 7) % 60, 0, i + 1);
    request.prompt.insert(request.prompt.end(), own.prompt.begin(), own.prompt.end());
    requests.push_back(request);
    arrivals.push_back({.pass = i / 6 * 2});
  }
  const auto flat = lesson02::make_engine(model, {})->generate(requests);
  int64_t preemptions = 0;
  for (const int num_blocks : {9, 16, 200}) {
    for (const int budget : {24, 512}) {
      CAPTURE(num_blocks);
      CAPTURE(budget);
      lesson08::ServingEngine engine(model, {.num_blocks = num_blocks},
                                     {.scheduler = {.max_tokens_per_pass = budget}});
      const auto result = engine.serve(requests, arrivals);
      preemptions += result.num_preemptions;
      for (size_t i = 0; i < requests.size(); ++i) {
        CHECK(result.generated.completions[i].tokens == flat.completions[i].tokens);
        CHECK(result.generated.completions[i].logits_xxh64 == flat.completions[i].logits_xxh64);
      }
    }
  }
  CHECK(preemptions > 0);
}
