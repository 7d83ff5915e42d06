#pragma once

// What the page's pools are of: real blocks on the device, in host memory and in a file, and copies
// between them that take their time.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "program/stepped_transfers.h"
#include "tiers.h"

namespace lesson11 {

constexpr int kBlockSize = 4;  // tokens

/// In blocks. No file: 0.
struct MemorySizes {
  int device = 0, host = 0, file = 0;
};

/// Blocks that went from one pool to the next.
struct LinkTraffic {
  int64_t down = 0, up = 0;
};

/// A file of its own, gone with it.
class ScratchFile {
 public:
  ScratchFile();
  ~ScratchFile();
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  const std::filesystem::path& path() const { return path_; }
  void remove() const;

 private:
  std::filesystem::path path_;
};

/// Three kinds of memory, and what is copied between them: by the lesson's own transfers, a block
/// at a time, when the page says so. K and V of a token are its number and its place, so that
/// everybody can see whose they are.
class PageMemory {
 public:
  /// What the file holds can be found; it is made if it is not there.
  PageMemory(const MemorySizes& sizes, std::filesystem::path file);

  /// The pools below the device's, for a manager that goes before this does. Once.
  std::vector<Tier> take_tiers() { return std::move(tiers_); }
  PrefixId first_prefix() const { return first_prefix_; }
  int num_links() const { return static_cast<int>(links_.size()); }
  SteppedTransfers& link(int tier) const { return *links_.at(static_cast<size_t>(tier)).transfers; }
  /// Since it was made.
  const LinkTraffic& traffic(int tier) const {
    return links_.at(static_cast<size_t>(tier)).traffic;
  }

  /// A pass has computed a token.
  void write(int32_t block, int offset, int32_t token, int position);
  /// Flips a bit of what a record of the file holds, as a worn disk might.
  void flip(int32_t record) const;
  /// Throws std::logic_error for a block that can be found and does not hold its tokens.
  void check(const TieredManager& manager);

 private:
  struct Link {
    SteppedTransfers* transfers = nullptr;  // the tier's
    LinkTraffic traffic;
  };
  FileShape shape() const;
  void add(Tier tier);

  MemorySizes sizes_;
  std::filesystem::path path_;
  kv::Stream stream_;
  PagedKvCache cache_;
  std::shared_ptr<const HostBlocks> host_;
  std::vector<Tier> tiers_;
  std::vector<Link> links_;
  PrefixId first_prefix_ = 0;
};

}  // namespace lesson11
