#pragma once

// The page of lesson 13: two servers without a model, and the store between them. page.cpp: what
// its commands do; scene.cpp: what servers and store hold, and how it looks.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lessons/13_shared_tier/cli/memory_store.h"
#include "lessons/13_shared_tier/engine.h"
#include "viz/drawing/shelves.h"
#include "viz/known_texts.h"
#include "viz/pool_page.h"

namespace lesson13 {

/// K and V of a token are a number each.
constexpr int kBlockSize = 4;  // tokens
constexpr uint64_t kFingerprint = 13;

/// A request to a server, and what it does. Its num_cached is that of its start.
struct Asked : viz::TextRequest {
  int server = 0;
  std::string doing = {};
};

/// A server's blocks on the device, or the values of the store. kReserved: a block is being loaded.
/// kEvicted: K and V are not those of the tokens. A value that nobody can tell from a right one has
/// no hue.
using Shelf = viz::ShelfBlocks;
enum : size_t { kFirst, kStore, kSecond };

/// What a server asked the store for with the last command: blocks of a text.
struct StoreTrip {
  std::string text = {};
  int server = 0;
  int64_t asked = 0, fetched = 0, refused = -1;  // how many; how many came; which one was refused
  int64_t loaded = 0;                            // of those that came: the others are only compared
};

struct Shown {
  viz::NamedList<Asked> asked{"text", 6};
  StoreTrip trip = {};
  std::array<Shelf, 3> shelves = {};
  int64_t loaded = 0;  // tokens
  std::string reason = {}, points_at = {};
};

struct PageSettings {
  int blocks = 8;       // of each device; the store has twice as many
  int has_secret = 0;   // whether the servers have a common secret
  int check_every = 0;  // see SharedOptions
};

/// A store that may be silent, and keeps a value at one place.
class PageStore final : public BlockStore {
 public:
  std::optional<size_t> find(std::span<const BlockName> names) override;
  void get(std::span<const BlockName> names, const OnValue& on_value) override;
  bool put(const BlockName& name, std::string_view value) override;

  MemoryStore values;
  std::map<BlockName, int32_t> places;  // from 1 on, in the order of the first puts
  size_t num_places = 0;
  bool is_there = true;
};

/// One of the two servers, without its model.
struct TieredScheduler {
  TieredScheduler(BlockStore& store, const PageSettings& settings);
  void write(const lesson08::Chunk& chunk);

  kv::Stream stream{kv::Device::kCpu};
  PagedKvCache cache;
  BlockRegions regions;  // of the cache
  HostBlocks memory;
  SharedTier tier;
  Server::Scheduler scheduler;
  int64_t computed = 0;  // tokens
};

class SharedTierPage : public viz::PoolPage<Shown, PageSettings> {
 public:
  explicit SharedTierPage(const viz::PageContext& context);

  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override;
  std::vector<viz::Button> actions() const override;
  void draw(viz::Ui& ui) override;

 private:
  // page.cpp
  std::string begin() override;
  std::string submit(const viz::Words& words);
  void pass(int number);
  void start(TieredScheduler& server, int64_t id);
  bool has_work(int number) const;
  const BlockName* find_value(const std::string& name) const;
  std::string chosen_value() const;
  std::string change(const std::string& how, const std::string& name);
  std::string tell(std::string what, std::string points_at = {});
  SharedMetrics metrics() const;  // of both servers

  // scene.cpp
  Shown look() override;
  void look_at(TieredScheduler& server, Shelf& shelf) const;
  void look_at_store(Shelf& shelf) const;

  PageStore store_;
  std::array<std::unique_ptr<TieredScheduler>, 2> servers_;
  std::map<uint64_t, viz::BlockLabel> by_hash_;
  std::map<BlockName, viz::BlockLabel> by_name_;
  std::map<BlockName, std::vector<int32_t>> tokens_;  // of blocks
  int64_t next_id_ = 0;
  bool poisoned_ = false;  // a value has been
  SharedMetrics told_;     // as of the last tell()
};

}  // namespace lesson13
