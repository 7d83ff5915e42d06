#include "store_trips.h"

#include <algorithm>
#include <chrono>

#include "lessons/12_file_tier/checksum_blocks.h"

namespace lesson13 {
namespace {

/// The most bytes of a trip, unless one block has more. A store collects a trip's values in memory
/// before it sends them, so more bytes would only need a larger buffer there.
constexpr size_t kBytesPerTrip = size_t{4} << 20;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void StoreTrips::make(Trip& trip) const {
  std::visit([&](auto& its) { make(its); }, trip);
}

void StoreTrips::make(Fetch& fetch) const {
  if (fetch.host_ids.empty()) {
    const auto found = store_.find(fetch.names);
    fetch.num_found = found.value_or(0);
    fetch.unreachable = !found;
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  const size_t size = fetch.tokens.size() / fetch.names.size();
  const size_t per_trip = std::max(kBytesPerTrip / format_.bytes_per_block, size_t{1});
  for (size_t at = 0; at < fetch.names.size() && fetch.checksums.size() == at; at += per_trip) {
    const auto names = std::span(fetch.names).subspan(at);
    store_.get(names.first(std::min(per_trip, names.size())),
               [&](size_t i, std::string_view value) {
                 if (fetch.checksums.size() < at + i) return;  // the block before it is damaged
                 const auto tokens = std::span(fetch.tokens).subspan((at + i) * size, size);
                 const auto content = host_.block(fetch.host_ids[at + i]);
                 const auto checksum = format_.decode(value, names[i], tokens, content);
                 if (!checksum) {
                   ++fetch.num_damaged;
                   return;
                 }
                 fetch.checksums.push_back(*checksum);
                 if (fetch.wants_digests) fetch.digests.push_back(kv::sha256(text_of(content)));
               });
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  fetch.seconds = took.count();
}

void StoreTrips::make(Put& put) const {
  const std::span<const std::byte> content = host_.block(put.host_id);
  const uint64_t checksum = checksums_[put.host_id];
  put.outcome = Put::Outcome::kDamaged;
  if (lesson12::checksum_of(content) != checksum) return;
  put.poisoned = put.stored && *put.stored != kv::sha256(text_of(content));
  const bool kept = store_.put(put.name, format_.encode(put.name, put.tokens, checksum, content));
  put.outcome = kept ? Put::Outcome::kPut : Put::Outcome::kNotPut;
}

}  // namespace lesson13
