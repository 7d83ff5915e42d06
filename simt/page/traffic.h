#pragma once

// Cost of a warp's loads and stores, read from a file that tools/warp_trace.py has made of a
// run on the simulated GPU: for each line of a kernel its counts, and some of its requests.

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace viz {

constexpr int kLanes = 32;
constexpr int kSectorBytes = 32;  // what global memory moves at least
constexpr int kBanks = 32;        // of shared memory, each 4 bytes wide
constexpr int kBankBytes = 4;

/// One instruction of one warp, all lanes at once.
struct WarpRequest {
  std::array<int, 3> block{};
  int warp = 0;
  std::array<int64_t, kLanes> at{};  // first byte, from the beginning of the array; -1: not active
};

/// Accesses of one line of a kernel to one kind of memory, over the whole run.
struct TrafficLine {
  std::string kernel;
  std::string file;  // "kernels/matmul.cu"
  int line = 0;
  std::string text;
  bool shared = false;  // else global memory
  bool store = false;   // else a load
  int bytes = 0;        // of each lane
  int64_t requests = 0;
  int64_t wanted = 0;                // bytes
  int64_t moved = 0;                 // sectors; of shared memory: passes through the banks
  int64_t least = 0;                 // the fewest that could do
  std::vector<WarpRequest> shown{};  // the first ones

  /// "matmul.cu:31".
  std::string place() const;
  /// "load of 4 bytes".
  std::string operation() const;
};

struct Traffic {
  std::string made_by;  // the command
  std::vector<TrafficLine> lines;

  /// Throws kv::UserError, with the place in the file, for a file that is something else or that
  /// contradicts itself.
  static Traffic load(const std::filesystem::path& file);
};

/// Lanes as bits: lane i is 1 << i.
using LaneMask = uint32_t;
LaneMask active_lanes(const WarpRequest& request);

/// A sector of global memory, and which lanes want each of its bytes.
struct Sector {
  int64_t number = 0;  // from the beginning of the array
  std::array<LaneMask, kSectorBytes> wanted_by{};

  int num_wanted() const;
};
/// The sectors that the request touches, in order.
std::vector<Sector> sectors_of(const WarpRequest& request, int bytes);

/// Words that the banks of shared memory give at once, one each. Two different words of one bank
/// are a conflict: they take two passes.
struct BankPass {
  std::array<LaneMask, kBanks> wanted_by{};  // the lanes that get this bank's word; 0: none
  std::array<int64_t, kBanks> word{};
};
/// 32 lanes take part at once with up to 4 bytes each, 16 with 8, 8 with 16.
std::vector<BankPass> passes_of(const WarpRequest& request, int bytes);

}  // namespace viz
