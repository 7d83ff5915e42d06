#pragma once

// The page of lesson 06: chains of hashes as a tree, a lookup that walks along it, and what a hash
// that collides does to it. page.cpp: what its commands do; page_scene.cpp: what it shows.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine.h"
#include "page_cache.h"
#include "viz/live.h"
#include "viz/page.h"
#include "viz/parts.h"

namespace lesson06 {

/// What the picture is made of.
struct Shown {
  /// A block that is in a table or can be found.
  struct Node {
    int32_t id = 0;
    std::string hash;             // none: it is not full
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
  /// Against the link that was looked up: those with its hash.
  struct Candidate {
    int32_t id = 0;
    std::string after;  // which prefix it was computed after
    std::vector<std::string> words;
    bool is_same = false;
  };
  struct Comparison {
    size_t link = 0;
    std::string after;
    std::vector<Candidate> candidates;
    bool trusted = false;  // the last one was taken though it is another
  };

  viz::PoolView pool;
  std::vector<viz::TableView> tables;
  std::vector<Node> nodes;  // parents before their children
  std::string asker;        // whose links these are; empty: nobody's
  std::vector<Link> links;
  bool asked = false;        // by the last command
  size_t num_looked_up = 0;  // of the links, then
  std::optional<Comparison> comparison;
};

class PrefixPage : public viz::Page {
 public:
  explicit PrefixPage(const viz::PageContext& context);

  void reset() override;
  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override;
  void draw(viz::Ui& ui) override;

 protected:
  void changed() override;
  void refused(const viz::Command& command, const std::string& why) override;

 private:
  using Request = WordCache::Request;
  void declare_pools();
  void declare_live();
  std::string restart(const WordCache::Settings& settings);
  std::string ask(const std::string& name, std::vector<int32_t> tokens);
  std::string why_not_forge(const std::string& first, const std::string& second) const;
  void start_live(const std::string& prompt, int max_tokens);
  std::string live_story();

  // Of the simulator, or of the engine while it runs.
  const KvCacheManager& manager() const;
  std::vector<Request> requests() const;
  std::string word(int32_t token);
  std::vector<std::string> words(std::span<const int32_t> tokens);
  Shown shown();
  void add_nodes(Shown& shown);
  void add_links(Shown& shown, const Request& request);
  void compare(Shown& shown);

  std::unique_ptr<WordCache> cache_;
  viz::Live live_;
  std::string asked_;  // by the last command; empty: it was no lookup
  std::string reason_;
  Shown now_;
};

}  // namespace lesson06
