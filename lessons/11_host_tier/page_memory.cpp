#include "page_memory.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <span>
#include <stdexcept>

#include "common/base/error.h"

namespace lesson11 {
namespace {

constexpr uint64_t kFingerprint = 11;  // there is no model

/// K and V of a token are a number each.
kv::ModelConfig one_number() {
  kv::ModelConfig config;
  config.num_layers = config.num_heads = config.num_kv_heads = config.head_dim = 1;
  return config;
}

/// A block of the host that is in use is on its way, and may hold anything yet.
void check_blocks(const BlockPool& pool, const char* where, bool in_use, const auto& k_of) {
  for (int32_t id = 1; id <= pool.num_blocks(); ++id) {
    if (pool.index().block(id) == nullptr || (!in_use && pool.ref_cnt(id) > 0)) continue;
    const auto* const k = static_cast<const float*>(k_of(id));  // first of all in a block
    const auto same = [](int32_t token, float number) {
      return static_cast<float>(token) == number;
    };
    if (std::ranges::equal(pool.index().tokens(id), std::span(k, kBlockSize), same)) continue;
    throw std::logic_error(fmt::format("block {} {} does not hold what it is found by", id, where));
  }
}

}  // namespace

ScratchFile::ScratchFile() {
  static int num_made = 0;
  path_ = std::filesystem::temp_directory_path() /
          fmt::format("page_by_page_{}_{}.blocks", ::getpid(), num_made++);
  remove();
}

ScratchFile::~ScratchFile() { remove(); }

void ScratchFile::remove() const {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

PageMemory::PageMemory(const MemorySizes& sizes, std::filesystem::path path)
    : sizes_(sizes),
      path_(std::move(path)),
      stream_(kv::Device::kCpu),
      cache_(one_number(), stream_, sizes.device + 1, kBlockSize) {
  links_.reserve(2);  // whose copies point to them
  HostTier host = make_host_tier(cache_, stream_, sizes.host);
  host_ = host.blocks;
  add(std::move(host.tier));
  if (sizes.file == 0) return;
  FileTier file = make_file_tier(path_, shape(), sizes.file, host_, FileTransfers::Run::kAtOnce);
  first_prefix_ = file.first_prefix;
  add(std::move(file.tier));
}

FileShape PageMemory::shape() const {
  return {.fingerprint = kFingerprint,
          .block_size = kBlockSize,
          .bytes_per_block = cache_.bytes_per_block()};
}

/// Its real transfers copy a block when its turn has come.
void PageMemory::add(Tier tier) {
  Link& link = links_.emplace_back();
  const std::shared_ptr<Transfers> real = std::move(tier.transfers);
  auto stepped = std::make_unique<SteppedTransfers>([real, &link](Way way, const BlockMove& move) {
    ++(way == Way::kDown ? link.traffic.down : link.traffic.up);
    real->wait(real->start(way, {&move, 1}));
    return real->take_damaged().empty();
  });
  link.transfers = stepped.get();
  tier.transfers = std::move(stepped);
  tiers_.push_back(std::move(tier));
}

void PageMemory::write(int32_t block, int offset, int32_t token, int position) {
  const lesson03::KvBlocks layer = cache_.layer(0);
  *lesson03::k_row<float>(layer, block, offset) = static_cast<float>(token);
  *lesson03::v_row<float>(layer, block, offset) = static_cast<float>(position);
}

void PageMemory::flip(int32_t record) const {
  const int64_t at = FileLayout(shape(), sizes_.file).content_of(record);
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 1));
  if (!file.flush()) kv::user_error("{} cannot be written", path_.string());
}

void PageMemory::check(const TieredManager& manager) {
  check_blocks(static_cast<const BlockPool&>(manager.pool()), "on the device", true,
               [&](int32_t id) { return cache_.block(0, id).k; });
  check_blocks(manager.tier_pool(0), "of the host", false,
               [&](int32_t id) { return static_cast<const void*>(host_->block(id).data()); });
}

}  // namespace lesson11
