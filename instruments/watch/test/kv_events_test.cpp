// The wire format: the bytes written are those of vLLM v0.22.1, and any bytes that come are read or
// refused.

#include "instruments/watch/kv_events.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "common/error.h"
#include "instruments/watch/event_mirror.h"

namespace {

using namespace watch;
using nlohmann::json;

constexpr uint64_t kFirst = 0x0123456789abcdef, kSecond = 0xfedcba9876543210;

EventBatch example() {
  return {.ts = 1763826000.25,
          .events = {BlockStored{.block_hashes = {hash_of(kFirst), hash_of(kSecond)},
                                 .token_ids = {1, 2, 300, 70000},
                                 .block_size = 2},
                     BlockRemoved{.block_hashes = {hash_of(kFirst)}}, AllBlocksCleared{}}};
}

std::string packed(const json& value) {
  std::string bytes;
  json::to_msgpack(value, bytes);
  return bytes;
}

/// A batch with this one event.
EventBatch decoded(const json& event) {
  return decode(packed(json::array({1.5, json::array({event})})));
}

std::string refusal(std::string_view payload) {
  try {
    decode(payload);
  } catch (const kv::UserError& error) {
    return error.what();
  }
  return "read";
}

/// What is said of a batch's only event, which makes no sense, or whose tokens make none.
std::string refusal_of(const json& event) {
  const EventBatch batch = decoded(event);
  REQUIRE(batch.problems.size() == 1);
  return batch.problems[0];
}

void check_same(const EventBatch& a, const EventBatch& b) {
  CHECK(a.ts == b.ts);
  CHECK(a.events == b.events);
  CHECK(a.data_parallel_rank == b.data_parallel_rank);
  CHECK(a.num_unknown == b.num_unknown);
}

}  // namespace

TEST_CASE("kv events: the bytes of a batch of each event") {
  // As python3-msgpack packs the arrays that kv_events.h shows.
  const std::string wanted =
      "93cb41da487654100000939aab426c6f636b53746f72656492cf0123456789abcdefcffedcba9876"
      "543210c0940102cd012cce0001117002c0a3475055c0c00094ac426c6f636b52656d6f76656491cf"
      "0123456789abcdefa34750550091b0416c6c426c6f636b73436c656172656400";
  CHECK(hex(encode(example())) == wanted);
  check_same(decode(encode(example())), example());
}

TEST_CASE("kv events: all fields, there and back") {
  EventBatch batch = example();
  batch.data_parallel_rank = 3;
  auto& stored = std::get<BlockStored>(batch.events[0]);
  stored.parent_block_hash = std::string("\x00\xff 32 bytes of a longer hash ..", 31);
  stored.block_hashes[1] = *stored.parent_block_hash;
  stored.place = {.medium = "CPU", .group_idx = 2};
  stored.lora_name = "an adapter";
  std::get<BlockRemoved>(batch.events[1]).place = stored.place;
  check_same(decode(encode(batch)), batch);
  stored.extra_keys = {{"salt", "\xff\xfe"}, {}};  // is written, and passed over by readers
  const json sent = json::from_msgpack(encode(batch));
  const std::vector<uint8_t> bytes{0xff, 0xfe};
  CHECK(sent[1][0][8] == json::array({json::array({"salt", json::binary(bytes)}), nullptr}));
  stored.extra_keys.clear();
  check_same(decode(packed(sent)), batch);
}

TEST_CASE("kv events: maps, as newer servers send them, are the same events") {
  const json stored{{"type", "BlockStored"},
                    {"block_hashes", {kFirst, kSecond}},
                    {"parent_block_hash", nullptr},
                    {"token_ids", {1, 2, 300, 70000}},
                    {"block_size", 2},
                    {"lora_id", nullptr},
                    {"medium", "GPU"},
                    {"lora_name", nullptr},
                    {"extra_keys", {nullptr, nullptr}},
                    {"kv_cache_spec_kind", "full_attention"},
                    {"something_new", {1, 2}}};
  const json removed{{"type", "BlockRemoved"}, {"block_hashes", {kFirst}}, {"medium", "GPU"}};
  const json events = json::array({stored, removed, {{"type", "AllBlocksCleared"}}});
  check_same(decode(packed(json::array({1763826000.25, events, 0}))), example());
  check_same(decode(packed({{"ts", 1763826000.25}, {"events", events}})), example());
}

TEST_CASE("kv events: older servers leave fields out, later ones append some, hashes vary") {
  const json none = json::array(), first{kFirst};
  const auto short_one = decoded({"BlockStored", first, -1, {5, 6}, 2, nullptr});
  const auto& stored = std::get<BlockStored>(short_one.events.at(0));
  CHECK(stored.parent_block_hash == hash_of(~uint64_t{0}));  // a signed hash of long ago
  CHECK(stored.place == Place{});
  CHECK(std::get<BlockRemoved>(decoded({"BlockRemoved", first}).events.at(0)).place == Place{});
  CHECK(decoded({"BlockRemoved", none, "CPU", 1, "later", {1, 2}}).events.size() == 1);
  CHECK(decoded(json::array({"AllBlocksCleared", "later"})).events.size() == 1);
  CHECK(decoded({"BlockStored", first, nullptr, none, 0, nullptr, "CPU"}).events.size() == 1);
  const auto strange = decoded({"BlockMoved", 1, 2, 3});
  CHECK(strange.events.empty());
  CHECK(strange.num_unknown == 1);
}

TEST_CASE("kv events: what is wrong is named") {
  const json first{kFirst};
  CHECK(refusal_of({"BlockStored", first, nullptr, {1, 2, 3}, 2}) ==
        "event 0, BlockStored: token_ids: found 3 tokens, wanted 1 of 2, or none");
  CHECK(refusal_of({"BlockStored", first, nullptr, {1, -2}, 2}) ==
        "event 0, BlockStored: token_ids: found -2, wanted an integer from 0 to 2147483647");
  CHECK(refusal_of({"BlockStored", first, nullptr, {1, 1ull << 63}, 2}).find("from 0 to") !=
        std::string::npos);
  CHECK(refusal_of({"BlockStored", first, nullptr, {1, 2}}) ==
        "event 0, BlockStored: block_size: found nothing, wanted an integer");
  CHECK(refusal_of({"BlockStored", first, nullptr, json::array(), 65'537}) ==
        "event 0, BlockStored: block_size: found 65537, wanted an integer from 0 to 65536");
  CHECK(refusal_of({"BlockStored", first, true, {1, 2}, 2}) ==
        "event 0, BlockStored: parent_block_hash: found boolean, wanted a whole number or bytes");
  CHECK(refusal_of({"BlockRemoved", kFirst}) ==
        "event 0, BlockRemoved: block_hashes: found number, wanted an array");
  CHECK(refusal_of({"BlockRemoved", first, "\xff"}) ==
        "event 0, BlockRemoved: medium: found other bytes, wanted UTF-8");
  CHECK(refusal_of({{"type", "BlockRemoved"}, {"block_hashes", {{kFirst}}}}) ==
        "event 0, BlockRemoved: block_hashes: found array, wanted a whole number or bytes");
  CHECK(refusal_of(7) == "event 0: found number without a name, wanted BlockStored or another");
  CHECK(refusal_of({7, 8}) == "event 0: found array without a name, wanted BlockStored or another");
  CHECK(refusal(packed("text")) == "found string, wanted a batch of events");
  CHECK(refusal(packed(json::array({1.5}))) == "events: found nothing, wanted an array");
}

TEST_CASE("kv events: an event that makes no sense costs no other event of its batch") {
  const json first{kFirst}, good{"BlockStored", first, nullptr, {1, 2}, 2};
  const json bad{"BlockStored", first, nullptr, {1, "x"}, 2};
  const EventBatch batch = decode(
      packed(json::array({NAN, json::array({good, bad, 7, {"BlockRemoved", first}}), "two"})));
  REQUIRE(batch.events.size() == 3);  // the bad one's blocks stand, too
  CHECK(std::get<BlockStored>(batch.events[1]).token_ids.empty());
  REQUIRE(batch.problems.size() == 4);
  CHECK(batch.problems[0] == "ts: found number, wanted seconds since 1970");
  CHECK(batch.problems[1] == "event 1, BlockStored: token_ids: found string, wanted an integer");
  CHECK(batch.problems[2].find("event 2: ") == 0);
  CHECK(batch.problems[3] == "data_parallel_rank: found string, wanted an integer");
}

TEST_CASE("kv events: a group that leaves blocks out has its hashes, and unknown tokens") {
  const json tokens{1, 2, 3, 4, 5, 6, 7, 8};
  const auto stored = [&](const json& hashes, int block_size) {
    return std::get<BlockStored>(decoded({"BlockStored", hashes, nullptr, tokens, block_size,
                                          nullptr, "GPU", nullptr, nullptr, 1})
                                     .events.at(0));
  };
  const BlockStored sparse = stored({kFirst}, 2);
  CHECK(sparse.block_hashes == std::vector{hash_of(kFirst)});
  CHECK(sparse.token_ids.empty());
  CHECK(sparse.place.group_idx == 1);
  CHECK(stored({kFirst, kSecond}, 4).token_ids.size() == 8);
  EventMirror mirror;
  CHECK(mirror.apply({.ts = 1, .events = {sparse}}).stored == 1);
  CHECK(mirror.blocks().begin()->second.tokens.empty());
  // More hashes than blocks, or half a block: that has no meaning.
  CHECK(refusal_of({"BlockStored", {kFirst, kSecond, 3}, nullptr, {1, 2, 3, 4}, 2}) != "");
}

TEST_CASE("kv events: whole numbers as floats") {
  const auto batch = decoded({"BlockStored", {5.0}, nullptr, {1.0, 2.0}, 2.0});
  const auto& stored = std::get<BlockStored>(batch.events.at(0));
  CHECK(stored.block_hashes == std::vector{hash_of(5)});
  CHECK(stored.token_ids == std::vector{1, 2});
  CHECK(refusal_of({"BlockStored", {5}, nullptr, {1.5}, 1}) ==
        "event 0, BlockStored: token_ids: found 1.5, wanted an integer from 0 to 2147483647");
}

TEST_CASE("kv events: cut bytes, lengths of gigabytes and towers of arrays are refused") {
  const std::string good = encode(example());
  for (size_t size = 0; size < good.size(); ++size) {
    CHECK(refusal(good.substr(0, size)).find("no MessagePack, or cut") != std::string::npos);
  }
  CHECK(refusal(good + "x").find("no MessagePack") != std::string::npos);
  const std::string huge_array("\x92\xcb\0\0\0\0\0\0\0\0\xdd\xff\xff\xff\xff", 15);
  CHECK(refusal(huge_array).find("no MessagePack") != std::string::npos);
  CHECK(refusal(std::string("\xc6\xff\xff\xff\xff", 5)).find("no MessagePack") !=
        std::string::npos);
  CHECK(refusal(std::string(1'000'000, '\x91')) == "nested deeper than 16 levels");
  CHECK(refusal(std::string(1'000'000, '\x81')).find("no MessagePack") != std::string::npos);
}

TEST_CASE("kv events: changed bytes never end the program") {
  const std::string good = encode(example());
  std::mt19937 rng(7);
  int64_t num_read = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string bytes = good;
    for (auto changes = 1 + rng() % 3; changes > 0; --changes) {
      bytes[rng() % bytes.size()] = static_cast<char>(rng());
    }
    num_read += refusal(bytes) == "read";
  }
  CHECK(num_read > 1000);  // other numbers
  CHECK(num_read < 99'000);
}
