#pragma once

// A manager with tiers whose blocks hold, in place of K and V, what K and V depend on: a symbolic
// model of the copies.

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "program/stepped_transfers.h"
#include "tests/support/shortened.h"
#include "tiered_manager.h"

namespace lesson11 {

using lesson06::ExtraKeys;
using lesson07::FreeOrder;
using Tokens = std::vector<int32_t>;
/// Of each token: the number of the prefix that ends with it. Equal numbers, equal K and V.
using Kv = std::vector<int64_t>;

struct TierSizes {
  int device = 4, host = 8, file = 0;  // blocks; no file: 0
  int block_size = 4;
  TierOptions options{};
  CacheManagerOptions cache{};
  FreeOrder order = FreeOrder::kUnhashedFirst;  // of the tiers
};

/// Stepped ones that may refuse to start.
struct TestTransfers final : Transfers {
  explicit TestTransfers(SteppedTransfers::Copy copy) : stepped(std::move(copy)) {}
  Ticket start(Way way, std::span<const BlockMove> moves) override {
    if (refuses) throw std::runtime_error("the batch is refused");
    return stepped.start(way, moves);
  }
  Ticket completed() override { return stepped.completed(); }
  void wait(Ticket ticket) override { stepped.wait(ticket); }
  std::vector<int32_t> take_damaged() override { return stepped.take_damaged(); }
  void forget_all() override { has_forgotten = true; }

  SteppedTransfers stepped;
  bool refuses = false, has_forgotten = false;
};

class Tiers {
 public:
  explicit Tiers(const TierSizes& sizes) : sizes_(sizes) { make(); }
  Tiers(const Tiers&) = delete;  // the transfers point into it
  Tiers& operator=(const Tiers&) = delete;

  TieredManager& manager() { return *manager_; }
  const TieredManager& manager() const { return *manager_; }
  BlockPool& device() { return *device_; }
  /// Copies between a tier and the pool above it.
  SteppedTransfers& copies(int tier) { return links_.at(at(tier))->stepped; }
  TestTransfers& transfers(int tier) { return *links_.at(at(tier)); }

  /// The first tokens of an endless text.
  static Tokens prompt(int text, int num_tokens) {
    Tokens tokens(at(num_tokens));
    std::iota(tokens.begin(), tokens.end(), 1000 * text);
    return tokens;
  }
  static ExtraKeys keys_of(int salt) {
    if (salt == 0) return {};
    return {{lesson07::ExtraKey::Kind::kSalt, std::to_string(salt)}};
  }
  BlockHashes& hashes(const Tokens& tokens, int salt = 0) {
    return hashes_.try_emplace({tokens, salt}, keys_of(salt)).first->second;
  }
  FoundBlocks look_up(const Tokens& tokens, int salt = 0) {
    return manager_->look_up(tokens, hashes(tokens, salt));
  }

  /// The request computes all tokens that are not on the device, and ends.
  void run(int64_t id, const Tokens& tokens, int salt = 0) {
    compute(id, tokens, salt);
    manager_->free(id);
  }
  void compute(int64_t id, const Tokens& tokens, int salt = 0) {
    const auto computed = manager_->get_computed_blocks(tokens, hashes(tokens, salt));
    const int rest = static_cast<int>(tokens.size()) - computed.num_tokens;
    kvtest::require(manager_->allocate_slots(id, rest, computed).has_value(), "no room to compute");
    write(id, tokens, computed.num_tokens, salt);
    cache(id, tokens, salt);
  }
  void cache(int64_t id, const Tokens& tokens, int salt = 0) {
    manager_->cache_blocks(id, tokens, hashes(tokens, salt), static_cast<int>(tokens.size()));
  }
  /// As a pass would write K and V, after the copies that it has to wait for.
  void write(int64_t id, const Tokens& tokens, int first, int salt = 0) {
    if (const Ticket ticket = manager_->take_write_ticket(); ticket > 0) copies(0).wait(ticket);
    const Kv kv = kv_of(tokens, salt);
    for (size_t i = at(first); i < tokens.size(); ++i) {
      const auto block = manager_->table(id).block_ids()[i / at(sizes_.block_size)];
      contents_[0][at(block)][i % at(sizes_.block_size)] = kv[i];
    }
  }
  /// The request loads what is found, and this returns when it has.
  void load(int64_t id, const Tokens& tokens, int salt = 0) {
    const FoundBlocks found = look_up(tokens, salt);
    const auto ticket = manager_->load(id, found);
    kvtest::require(ticket.has_value(), "no room to load");
    copies(0).wait(*ticket);
    manager_->finish_moves();
    const int num_blocks = manager_->table(id).num_blocks();
    manager_->cache_blocks(id, tokens, hashes(tokens, salt), num_blocks * sizes_.block_size);
  }
  /// What K and V of the tokens have to be.
  Kv kv_of(const Tokens& tokens, int salt = 0) {
    Kv kv;
    int64_t prefix = -salt;
    for (const int32_t token : tokens) {
      prefix = numbers_.try_emplace({prefix, token}, std::ssize(numbers_) + 1).first->second;
      kv.push_back(prefix);
    }
    return kv;
  }
  /// What the blocks of a request hold.
  Kv contents(int64_t id) const {
    Kv kv;
    for (const int32_t block : manager_->table(id).block_ids()) {
      const Kv& content = contents_[0][at(block)];
      kv.insert(kv.end(), content.begin(), content.end());
    }
    return kv;
  }
  /// Pool 0 is the device's.
  const Kv& content(int pool, int32_t block) const { return contents_[at(pool)][at(block)]; }

  /// The block of a tier cannot be read any more, until it is written again.
  void damage(int tier, int32_t block) { damaged_.insert({at(tier) + 1, block}); }
  /// Nothing can be written into the tier.
  void fill_disk(int tier, bool full = true) { is_full_[at(tier) + 1] = full; }

  /// Copies that begin now, and all others, end.
  void sink_all() {
    manager_->sink();
    finish_all();
  }
  void finish_all() {
    for (TestTransfers* const link : links_) link->stepped.step(1 << 20);
    manager_->finish_moves();
  }
  /// The last tier is a file: what it holds is found again.
  void restart() {
    const int last = manager_->num_tiers() - 1;
    std::vector<std::optional<Record>> records(1);
    for (int32_t id = 1; id <= sizes_.file; ++id) {
      const BlockPool& pool = manager_->tier_pool(last);
      const auto* const block = pool.index().block(id);
      records.emplace_back();
      if (block == nullptr) continue;
      const auto tokens = pool.index().tokens(id);
      records.back() = {.hash = block->hash,
                        .parent = block->parent,
                        .prefix = block->prefix,
                        .tokens = {tokens.begin(), tokens.end()},
                        .extra_keys = block->extra_keys};
    }
    manager_.reset();  // waits for what is under way
    auto file = std::move(contents_.back());
    make(&records);
    contents_.back() = std::move(file);
  }

 private:
  struct Record {
    uint64_t hash = 0;
    std::optional<PrefixId> parent;
    PrefixId prefix = 0;
    Tokens tokens;
    ExtraKeys extra_keys;
  };
  using Block = std::pair<size_t, int32_t>;  // pool, id
  static size_t at(int64_t n) { return static_cast<size_t>(n); }

  void make(const std::vector<std::optional<Record>>* records = nullptr) {
    device_ = std::make_unique<BlockPool>(sizes_.device, sizes_.block_size);
    links_.clear();
    contents_.clear();
    add_contents(sizes_.device);
    std::vector<Tier> tiers;
    PrefixId first_prefix = 0;
    for (const int num_blocks : {sizes_.host, sizes_.file}) {
      if (num_blocks == 0) continue;
      add_contents(num_blocks);
      const size_t lower = contents_.size() - 1;
      auto transfers = std::make_unique<TestTransfers>(
          [this, lower](Way way, const BlockMove& move) { return copy(lower, way, move); });
      links_.push_back(transfers.get());
      Tier tier;
      tier.pool = std::make_unique<BlockPool>(num_blocks, sizes_.block_size, sizes_.order);
      tier.transfers = std::move(transfers);
      tiers.push_back(std::move(tier));
    }
    if (records) first_prefix = adopt(*tiers.back().pool, *records);
    manager_ = std::make_unique<TieredManager>(*device_, std::move(tiers), sizes_.cache,
                                               sizes_.options, first_prefix);
  }
  void add_contents(int num_blocks) {
    contents_.emplace_back(at(num_blocks) + 1, Kv(at(sizes_.block_size), kNothing));
  }
  static PrefixId adopt(BlockPool& pool, const std::vector<std::optional<Record>>& records) {
    PrefixId next = 0;
    std::vector<int32_t> ids(at(pool.num_blocks()));
    pool.get_new_blocks(ids);
    for (const int32_t id : ids) {
      if (!records[at(id)]) continue;
      const Record& record = *records[at(id)];
      pool.cache_full_block(id, {.hash = record.hash,
                                 .parent = record.parent,
                                 .tokens = record.tokens,
                                 .extra_keys = record.extra_keys,
                                 .prefix = record.prefix});
      next = std::max(next, record.prefix + 1);
    }
    pool.free_blocks(ids);
    return next;
  }
  bool copy(size_t lower, Way way, const BlockMove& move) {
    Kv& below = contents_[lower][at(move.lower)];
    Kv& above = contents_[lower - 1][at(move.upper)];
    if (way == Way::kDown) {
      damaged_.erase({lower, move.lower});
      below = is_full_[lower] ? Kv(below.size(), kNothing) : above;
      return !is_full_[lower];
    }
    const bool whole = !damaged_.contains({lower, move.lower}) && below.front() != kNothing;
    above = whole ? below : Kv(below.size(), kNothing);
    return whole;
  }

  static constexpr int64_t kNothing = INT64_MIN;
  TierSizes sizes_;
  std::unique_ptr<BlockPool> device_;
  std::vector<std::vector<Kv>> contents_;  // [pools][blocks + 1]
  std::set<Block> damaged_;
  std::array<bool, 3> is_full_{};                           // by pool
  std::map<std::pair<int64_t, int32_t>, int64_t> numbers_;  // of a prefix and the token after it
  std::map<std::pair<Tokens, int>, BlockHashes> hashes_;    // with a salt
  std::vector<TestTransfers*> links_;
  std::unique_ptr<TieredManager> manager_;  // destroyed first: it waits for copies
};

/// "0 of tier 0, on its way": where found blocks are.
inline std::vector<int> tiers_of(const FoundBlocks& found) {
  std::vector<int> tiers;
  for (const TierBlock& block : found.below) tiers.push_back(block.tier);
  return tiers;
}
inline int num_on_their_way(const FoundBlocks& found) {
  return static_cast<int>(std::ranges::count_if(found.below, &TierBlock::on_its_way));
}
/// On the device, below it.
inline std::pair<int, int> sizes(const FoundBlocks& found) {
  return {found.computed.num_tokens, static_cast<int>(found.below.size())};
}
using Sizes = std::pair<int, int>;

}  // namespace lesson11
