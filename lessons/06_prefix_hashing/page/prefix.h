#pragma once

// The page of lesson 06: chains of hashes as a tree, a lookup that walks along it, and what a hash
// that collides does to it. page.cpp has its commands, scene.cpp its picture.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache.h"
#include "engine.h"
#include "viz/drawing/parts.h"
#include "viz/pool_page.h"

namespace lesson06 {

/// The state that the picture shows.
struct Shown {
  /// A block that is in a table or can be found.
  struct Node {
    int32_t id = 0;
    std::string hash;             // empty if it is not full
    std::optional<size_t> after;  // the node of the block before it
    bool is_new = true;           // by the last command
  };
  /// A block's worth of the request's tokens.
  struct Link {
    std::vector<std::string> words;
    std::string hash;
    int32_t id = 0;  // of the block in its table
    bool found = false, wrong = false;
  };

  viz::PoolView pool;
  std::vector<viz::TableView> tables;
  std::vector<Node> nodes;  // parents before their children
  std::string asker;        // the request that the links are of; empty: none
  int hue = -1;             // of the asker
  std::vector<Link> links;
  bool asked = false;        // by the last command
  size_t num_looked_up = 0;  // of the links, then
  std::optional<Comparison> comparison;
  std::string reason;  // why the last command did what it did
};

class PrefixPage : public viz::PoolPage<Shown, CacheSettings> {
 public:
  explicit PrefixPage(const viz::PageContext& context);

  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override {
    cache_->check();
    manager().check();
  }
  viz::Scene scene(const viz::Room& room) override;
  void draw(viz::Ui& ui) override;

 private:
  std::string begin() override;
  Shown look() override;
  void changed() override;
  void refused(const viz::Command& command, const std::string& why) override;
  std::string ask(const std::string& name, std::vector<int32_t> tokens);
  std::string why_not_forge(const std::string& first, const std::string& second) const;
  void start_live(const std::string& prompt, int max_tokens);
  std::string live_story();

  // Of the simulator, or of the engine while it runs.
  const KvCacheManager& manager() const {
    return live_.running() ? *live_.engine<PrefixEngine>().manager() : cache_->manager();
  }
  std::vector<WordCache::Request> requests() const {
    return cache_->asked().now<PrefixEngine>(live_);
  }
  void add_nodes(Shown& shown) const;
  void add_links(Shown& shown, const WordCache::Request& request) const;

  std::unique_ptr<WordCache> cache_;
  std::string asked_;  // by the last command; empty if it was no lookup
  std::string reason_;
};

}  // namespace lesson06
