#pragma once

// The page of lesson 12: a device, a host and a file of blocks, damage and losses there, and the
// blocks that the next start finds. page.cpp: what its commands do; scene.cpp: what the three hold,
// and how it looks.

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/temp_folder.h"
#include "lessons/12_file_tier/engine.h"
#include "viz/drawing/shelves.h"
#include "viz/known_texts.h"
#include "viz/pool_page.h"

namespace lesson12 {

/// K and V of a token are a number each.
constexpr int kBlockSize = 4;  // tokens
constexpr FileShape kShape{
    .fingerprint = 12, .block_size = kBlockSize, .bytes_per_block = 2 * kBlockSize * sizeof(float)};

/// A request, and what it does. Its num_cached is that of its start.
struct Asked : viz::TextRequest {
  std::string doing = {};
};

/// The device's blocks, the host's, or the records of the file. kReserved: a block is being loaded,
/// or saved to the file. kEvicted: it is damaged.
using Shelf = viz::ShelfBlocks;  // none without power
enum : size_t { kDevice, kHost, kFile };
inline const std::array<std::string, 3> kShelves{"device", "host", "file"};

struct Shown {
  viz::NamedList<Asked> asked{"request", 6};
  std::array<Shelf, 3> shelves = {};
  int num_starts = 0;
  bool is_on = false;                // a server runs
  std::array<int, 2> num_lost = {};  // blocks of the device and the host that ended with it
  int64_t found = 0;                 // tokens since the start
  std::string reason = {}, points_at = {};
};

struct PageSettings {
  int device = 10, host = 14;  // blocks
};

/// All that ends with a process.
struct Process {
  Process(const std::filesystem::path& path, const PageSettings& settings);
  void write(const lesson08::Chunk& chunk);
  /// Throws std::logic_error for a block of the device that can be found and does not hold its
  /// tokens.
  void check();

  kv::Stream stream{kv::Device::kCpu};
  PagedKvCache cache;
  BlockRegions regions;  // of the cache
  HostBlocks memory;
  BlockFile file;
  Tiers tiers;
  Server::Scheduler scheduler;
};

class FileTierPage : public viz::PoolPage<Shown, PageSettings> {
 public:
  explicit FileTierPage(const viz::PageContext& context);

  std::vector<viz::Counter> counters() const override;
  void check_invariants() const override;
  viz::Scene scene(const viz::Room& room) override;
  std::vector<viz::Button> actions() const override;
  void draw(viz::Ui& ui) override;

 private:
  // page.cpp
  std::string begin() override;
  std::string start();
  void end();
  std::string submit(const viz::Words& words);
  void pass();
  std::string cut_power(int num_writes, int lost);
  int32_t find(size_t shelf, const std::string& name) const;
  std::string chosen_block() const;
  std::string damage(const viz::Words& words);
  std::string tell(std::string what, std::string points_at = {});

  // scene.cpp
  Shown look() override;
  void look_at_memory(Shelf& device, Shelf& host) const;
  void look_at_file(Shelf& shelf) const;

  std::optional<kv::TempFolder> folder_;
  std::filesystem::path path_;
  std::unique_ptr<Process> process_;           // null without power
  std::map<uint64_t, viz::BlockLabel> names_;  // of blocks by hash
  int64_t next_id_ = 0;
  int64_t computed_ = 0;  // tokens since the start
  FileMetrics told_;      // as of the last tell()
};

}  // namespace lesson12
