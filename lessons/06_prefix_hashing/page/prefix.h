#pragma once

// The page of lesson 06: chains of hashes as a tree, a lookup that walks along it, and the effect
// of a hash that collides. page.cpp has the commands, shown.cpp the candidates of a lookup and the
// contents of the blocks, scene.cpp the picture.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine.h"
#include "viz/drawing/parts.h"
#include "viz/pool_page.h"
#include "viz/word_requests.h"

namespace lesson06 {

struct PageSettings {
  int num_blocks = 24;
  int block_size = 4;
  int bits = 64;            // of the hash
  bool trust_hash = false;  // equal hashes are enough; else tokens and parents are compared
};

using Requests = viz::WordRequests<KvCacheManager, BlockHashes>;

/// A block with the hash that was looked up.
struct Candidate {
  int32_t id = 0;
  std::string after;  // the prefix that it was computed after
  std::vector<std::string> words;
  bool is_same = false;  // tokens and parent are those that were wanted
};
/// The comparison at a link for which a lookup found blocks with other tokens or another parent.
struct Comparison {
  size_t link = 0;
  std::string after;
  std::vector<Candidate> candidates;  // up to the one that was taken
  bool trusted = false;               // the last one was taken despite other content
};
struct Lookup {
  size_t num_found = 0;  // blocks
  int64_t num_refused = 0,
          num_others = 0;  // candidates: refused by the manager, and with other content
  std::optional<Comparison> comparison = {};  // the last one
};

/// The state that the picture shows.
struct Shown {
  /// A block that is in a table or can be found.
  struct Node {
    int32_t id = 0;
    std::string hash;             // empty if it is not full
    std::optional<size_t> after;  // the node of the block before it
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

class PrefixPage : public viz::PoolPage<Shown, PageSettings> {
 public:
  explicit PrefixPage(const viz::PageContext& context);

  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override;
  std::vector<viz::Button> actions() const override;
  void draw(viz::Ui& ui) override;

 private:
  // page.cpp
  std::string begin() override;
  void refused(const viz::Command& command, const std::string& why) override;
  std::string ask(const std::string& name, std::vector<int32_t> tokens);
  std::string why_not_forge(const std::string& first, const std::string& second) const;
  void start_live(const std::string& prompt, int max_tokens);
  std::string live_story();

  // Of the engine during a live run, else of the page.
  const KvCacheManager& manager() const {
    return live_.running() ? *live_.engine<PrefixEngine>().manager() : *manager_;
  }
  std::vector<Requests::Request> requests() const { return asked_.now<PrefixEngine>(live_); }

  // shown.cpp
  Lookup walk(std::span<const int32_t> tokens, const BlockHashes& hashes,
              const ComputedBlocks& computed) const;
  std::span<const int32_t> beginning(const Requests::Request& request, size_t index) const;
  bool is_wrong(const Requests::Request& request, size_t index) const;
  int num_wrong() const;
  Shown look() override;
  void add_nodes(Shown& shown) const;
  void add_links(Shown& shown, const Requests::Request& request, bool asked) const;

  std::unique_ptr<BlockPool> pool_;
  std::unique_ptr<KvCacheManager> manager_;  // borrows the pool
  Requests asked_{8};
  std::vector<std::vector<int32_t>> written_;  // [num_blocks] token 0 up to the end of the block
  Lookup lookup_;                              // the last one
  int64_t num_refused_ = 0;                    // candidates with another content
  bool asked_now_ = false;                     // the command looked a request up, the last one
};

}  // namespace lesson06
