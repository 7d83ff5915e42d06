#include "shared_tier.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "common/defer.h"

namespace lesson13 {

using lesson06::BlockKey;
using lesson06::CachedBlock;
using lesson06::PrefixId;

/// The number of the first prefix that comes from the store. Lesson 11's device begins with 0.
constexpr PrefixId kFirstPrefix = PrefixId{1} << 62;

SharedTier::SharedTier(const BlockRegions& regions, const HostBlocks& memory, BlockStore& store,
                       uint64_t fingerprint, const kv::Stream& passes, const ServeOptions& serve,
                       const SharedOptions& options, kv::RunJobs run)
    : regions_(regions),
      memory_(memory),
      passes_(passes),
      options_(options),
      pool_(regions.num_blocks() - 1, regions.block_size(), free_order(serve)),
      host_pool_(memory.num_ids() - 1, regions.block_size(), lesson07::FreeOrder::kUnhashedFirst),
      swapper_(regions, memory, host_pool_, passes),
      manager_(pool_, host_pool_, swapper_, {.hasher = serve.hasher, .caching = serve.caching}),
      gathers_(passes.device()),
      written_(passes.device()),
      caching_(serve.caching),
      next_prefix_(kFirstPrefix),
      trips_(store, memory, swapper_.checksums()),
      worker_(run, [this](Trip& trip) { trips_.make(trip); }) {
  pool_.set_event_sink(serve.on_cache_event);
  set_fingerprint(fingerprint);
}

SharedTier::~SharedTier() {
  try {
    settle();
  } catch (const std::exception&) {  // other servers compute what the store lacks
  }
}

void SharedTier::set_fingerprint(uint64_t fingerprint) {
  begin_pass();
  settle();
  for (auto& [id, request] : requests_) request.is_shared = false;
  fingerprint_ = fingerprint;
  trips_.set_format({.fingerprint = fingerprint,
                     .bytes_per_block = memory_.bytes_per_block(),
                     .secret = options_.secret});
}

bool SharedTier::add(int64_t id, std::span<const int32_t> prompt, const ExtraKeys& extra_keys,
                     bool look_up) {
  Request request{.arrival = num_requests_++,
                  .root = root_name(fingerprint_, extra_keys),
                  .is_shared = caching_ && can_be_shared(extra_keys)};
  const size_t size = regions_.block_size();
  const size_t last = (prompt.size() - 1) / size;  // the last token has to run
  size_t here = last;
  if (look_up && request.is_shared) {
    request.hashes = BlockHashes(extra_keys);
    const auto computed = manager_.get_computed_blocks(prompt, request.hashes);
    here =
        computed.block_ids.size() + manager_.find_in_host(prompt, request.hashes, computed).size();
  }
  std::list<Trip> lookup;  // or none
  if (here < last) {
    extend_names(request.names, request.root, prompt.first(last * size), regions_.block_size());
    request.prompt.assign(prompt.begin(), prompt.end());
    const auto names = std::span(request.names).subspan(here);
    const auto missing = prompt.subspan(here * size, names.size() * size);
    metrics_.num_queried += std::ssize(names);
    lookup.push_back(Fetch{.request = id,
                           .arrival = request.arrival,
                           .names = {names.begin(), names.end()},
                           .tokens = {missing.begin(), missing.end()}});
  } else {
    ready_.push_back(id);
  }
  requests_.insert_or_assign(id, std::move(request));
  worker_.start_urgent(std::move(lookup));
  return here < last;
}

void SharedTier::remove(int64_t id) {
  requests_.erase(id);
  std::erase(ready_, id);
}

std::vector<int64_t> SharedTier::complete() {
  poll();
  std::ranges::sort(ready_, {}, [&](int64_t id) { return requests_.at(id).arrival; });
  return std::exchange(ready_, {});
}

void SharedTier::poll() {
  manager_.complete();  // blocks that have been loaded can be found from now on
  drop_damaged();       // and those that are not as they were computed cannot
  for (; !outgoing_.empty() && outgoing_.front().end.done(); outgoing_.pop_front()) {
    worker_.start(std::move(outgoing_.front().puts));
  }
  for (auto one = worker_.take_done(); !one.empty(); one = worker_.take_done()) {
    const auto* const fetch = std::get_if<Fetch>(&one.front());
    if (fetch == nullptr) {
      take_put(std::get<Put>(one.front()));
    } else if (fetch->host_ids.empty()) {
      take_lookup(std::move(one));
    } else {
      take_blocks(*fetch);
    }
  }
}

/// Evicts the blocks that verify() returns from both pools, as lesson 12 does.
void SharedTier::drop_damaged() {
  for (const BlockMove& move : swapper_.verify()) {
    ++metrics_.num_changed_here;
    pool_.evict_blocks({&move.device, 1});
    host_pool_.evict_blocks({&move.host, 1});
  }
}

/// The request that waits for the fetch; null if it has ended.
SharedTier::Request* SharedTier::asker_of(const Fetch& fetch) {
  const auto found = requests_.find(fetch.request);
  const bool waits = found != requests_.end() && found->second.arrival == fetch.arrival;
  return waits ? &found->second : nullptr;
}

/// Fetches what was found, as far as the host has room.
void SharedTier::take_lookup(std::list<Trip> lookup) {
  auto& fetch = std::get<Fetch>(lookup.front());
  if (asker_of(fetch) == nullptr) return;
  metrics_.num_unreachable += fetch.unreachable;
  metrics_.num_found += static_cast<int64_t>(fetch.num_found);
  const size_t room = host_pool_.num_free();
  const size_t num_blocks = std::min(fetch.num_found, room);
  if (num_blocks == 0) {
    ready_.push_back(fetch.request);
    return;
  }
  fetch.names.resize(num_blocks);
  fetch.tokens.resize(num_blocks * regions_.block_size());
  fetch.host_ids.resize(num_blocks);
  const int every = options_.check_every;
  fetch.wants_digests = every > 0 && ++num_answered_ % every == 0;
  host_pool_.get_new_blocks(fetch.host_ids);
  worker_.start_urgent(std::move(lookup));
}

void SharedTier::take_blocks(const Fetch& fetch) {
  const kv::Defer free_blocks{[&] { host_pool_.free_blocks(fetch.host_ids); }};
  metrics_.num_fetched += std::ssize(fetch.checksums);
  metrics_.num_damaged += fetch.num_damaged;
  if (!fetch.checksums.empty()) {
    const auto count = static_cast<double>(fetch.checksums.size());
    seconds_per_block_ = lesson11::smoothed(seconds_per_block_, fetch.seconds / count);
  }
  if (Request* const request = asker_of(fetch)) {
    receive(*request, fetch);
    ready_.push_back(fetch.request);
  }
}

/// Makes the blocks that came findable in the host. Device or host had the blocks before them; if
/// one of these is gone meanwhile, the blocks that came are dropped.
void SharedTier::receive(Request& request, const Fetch& fetch) {
  const size_t first =
      std::ranges::find(request.names, fetch.names.front()) - request.names.begin();
  if (fetch.wants_digests) {
    for (size_t i = 0; i < fetch.digests.size(); ++i) {
      request.to_check.emplace(fetch.names[i], fetch.digests[i]);
    }
    return;
  }
  lesson06::PrefixChain chain;
  for (size_t i = 0; i < first + fetch.checksums.size(); ++i) {
    BlockKey key = next_key(chain, request.prompt, request.hashes, regions_.block_size());
    const CachedBlock* const in_host = host_pool_.index().find(key);
    const CachedBlock* const on_device = pool_.index().find(key);
    if (in_host == nullptr && on_device == nullptr && i < first) return;
    key.prefix = in_host != nullptr     ? in_host->prefix
                 : on_device != nullptr ? on_device->prefix
                                        : next_prefix_++;
    if (i >= first && in_host == nullptr) {
      const int32_t id = fetch.host_ids[i - first];
      swapper_.checksums()[id] = fetch.checksums[i - first];
      host_pool_.cache_full_block(id, key);
    }
    chain = {chain.num_blocks + 1, key.prefix};
  }
}

void SharedTier::take_put(const Put& put) {
  ++num_puts_confirmed_;
  metrics_.num_put += put.outcome == Put::Outcome::kPut;
  metrics_.num_not_put += put.outcome == Put::Outcome::kNotPut;
  metrics_.num_checked += put.stored.has_value();
  metrics_.num_poisoned += put.poisoned;
  if (put.outcome == Put::Outcome::kDamaged) {
    ++metrics_.num_changed_here;
    host_pool_.evict_blocks({&put.host_id, 1});
  }
  host_pool_.free_blocks({&put.host_id, 1});
}

void SharedTier::begin_pass() {
  for (const Trip& put : filling_) host_pool_.free_blocks({&std::get<Put>(put).host_id, 1});
  filling_.clear();
  moves_.clear();
  num_gathered_ = 0;
}

/// At most half of the host's blocks wait for a slow store; further blocks are not put.
void SharedTier::add_chunk(int64_t id, std::span<const int32_t> tokens, int begin, int end) {
  const auto found = requests_.find(id);
  if (found == requests_.end() || !found->second.is_shared) return;
  Request& request = found->second;
  const int size = regions_.block_size();
  extend_names(request.names, request.root, tokens.first(end), size);
  const auto blocks = manager_.table(id).block_ids();
  for (int i = begin / size; i < end / size; ++i) {
    const int64_t num_held = std::ssize(filling_) + num_puts_issued_ - num_puts_confirmed_;
    if (2 * num_held >= host_pool_.num_blocks() || host_pool_.num_free() == 0) {
      ++metrics_.num_not_put;
      continue;
    }
    const size_t index = i;
    const auto own = tokens.subspan(index * size, size);
    Put put{.name = request.names[index], .tokens = {own.begin(), own.end()}};
    if (const auto wanted = request.to_check.extract(put.name)) put.stored = wanted.mapped();
    moves_.push_back({.device = blocks[index]});
    int32_t& host_id = std::get<Put>(filling_.emplace_back(std::move(put))).host_id;
    host_pool_.get_new_blocks({&host_id, 1});  // cannot fail
    moves_.back().host = host_id;
  }
}

void SharedTier::gather(int layer) {
  num_gathered_ = layer + 1;
  if (moves_.empty()) return;
  written_.record(passes_);
  written_.let_wait(gathers_);
  gather_layer({.regions = &regions_, .host = &memory_, .layer = layer, .moves = moves_}, gathers_);
}

/// A block that the host has already, because another request has computed it, is not put again.
/// Passes after this one wait for the copies, which read what these passes may write.
void SharedTier::end_pass() {
  if (filling_.empty()) return;
  while (num_gathered_ < regions_.num_layers()) gather(num_gathered_);
  lesson12::checksum_blocks(
      {.regions = &regions_, .blocks = moves_, .checksums = swapper_.checksums()}, gathers_);
  Outgoing& out = outgoing_.emplace_back(Outgoing{.puts = {}, .end = kv::Event(passes_.device())});
  out.end.record(gathers_);
  out.end.let_wait(passes_);
  for (const BlockMove& move : moves_) {
    const CachedBlock* const block = pool_.index().block(move.device);
    const bool is_new =
        block != nullptr && host_pool_.index().find(pool_.index().key_of(*block)) == nullptr;
    if (is_new) {
      host_pool_.cache_full_block(move.host, pool_.index().key_of(*block));
      out.puts.splice(out.puts.end(), filling_, filling_.begin());
      ++num_puts_issued_;
    } else {
      host_pool_.free_blocks({&move.host, 1});
      filling_.pop_front();
    }
  }
  moves_.clear();
}

void SharedTier::wait_for_copies() const {
  for (const Outgoing& out : outgoing_) out.end.wait();
}

void SharedTier::settle() {
  swapper_.wait(swapper_.last());
  wait_for_copies();
  for (poll(); !worker_.idle(); poll()) worker_.wait(std::chrono::milliseconds(100));
}

}  // namespace lesson13
