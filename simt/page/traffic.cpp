#include "simt/page/traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "common/error.h"
#include "common/json.h"
#include "common/table.h"

namespace viz {
namespace {

constexpr size_t kMaxFileBytes = size_t{16} << 20;
constexpr int64_t kMost = int64_t{1} << 53;  // of any count
constexpr int kMostBytes = 16;               // of a lane

WarpRequest request_of(const kv::JsonObject& json) {
  WarpRequest request;
  const std::vector<kv::Json>& block = json.array("block");
  if (block.size() != request.block.size()) json.wrong("block", "three numbers, x, y and z");
  for (size_t i = 0; i < block.size(); ++i) {
    request.block[i] =
        static_cast<int>(kv::json_integer(block[i], json.where() + ": block", 0, INT32_MAX));
  }
  request.warp = static_cast<int>(json.integer("warp", 0, 31));
  const std::vector<kv::Json>& lanes = json.array("lanes");
  if (lanes.size() != kLanes) json.wrong("lanes", "32 places, or null for lanes without a part");
  for (size_t i = 0; i < lanes.size(); ++i) {
    request.at[i] =
        lanes[i].is_null()
            ? -1
            : kv::json_integer(lanes[i], fmt::format("{}: lane {}", json.where(), i), 0, kMost);
  }
  if (active_lanes(request) == 0) json.wrong("lanes", "at least one lane with a place");
  return request;
}

int64_t num_moved(const TrafficLine& line, const WarpRequest& request) {
  return line.shared ? std::ssize(passes_of(request, line.bytes))
                     : std::ssize(sectors_of(request, line.bytes));
}

/// The counts were made elsewhere (simt/trace.cpp): what can be counted again must agree.
void check(const TrafficLine& line, const kv::JsonObject& json) {
  if (line.least > line.moved)
    json.wrong("least", fmt::format("at most {}, the moved", line.moved));
  if (!line.shared && line.wanted > line.moved * kSectorBytes) {
    json.wrong("wanted", fmt::format("at most {}, the bytes moved", line.moved * kSectorBytes));
  }
  const auto shown = std::ssize(line.shown);
  if (shown < 1 || shown > line.requests) {
    json.wrong("shown", "1 of them at least, and no more than the requests");
  }
  int64_t moved = 0;
  for (const WarpRequest& request : line.shown) moved += num_moved(line, request);
  if (shown == line.requests ? moved != line.moved : moved >= line.moved) {
    json.wrong("moved", fmt::format("{} {}, as the requests shown move so many",
                                    shown == line.requests ? "just" : "more than", moved));
  }
}

TrafficLine line_of(const kv::JsonObject& json) {
  TrafficLine line;
  line.kernel = json.string("kernel");
  line.file = json.string("file");
  line.line = static_cast<int>(json.integer("line", 0, INT32_MAX));
  line.text = json.string("text");
  const std::string& space = json.string("space");
  if (space != "global" && space != "shared") json.wrong("space", "global or shared");
  line.shared = space == "shared";
  const std::string& op = json.string("op");
  if (op != "load" && op != "store") json.wrong("op", "load or store");
  line.store = op == "store";
  line.bytes = static_cast<int>(json.integer("bytes", 1, kMostBytes));
  line.requests = json.integer("requests", 1, kMost);
  line.wanted = json.integer("wanted", 1, kMost);
  line.moved = json.integer("moved", 1, kMost);
  line.least = json.integer("least", 1, kMost);
  for (const kv::Json& shown : json.array("shown")) {
    const auto number = line.shown.size() + 1;
    line.shown.push_back(
        request_of(kv::JsonObject(shown, fmt::format("{}: request {}", json.where(), number))));
  }
  check(line, json);
  return line;
}

}  // namespace

std::string TrafficLine::place() const {
  return fmt::format("{}:{}", std::filesystem::path(file).filename().string(), line);
}

std::string TrafficLine::operation() const {
  return fmt::format("{} of {}", store ? "store" : "load", kv::count_of(bytes, "byte"));
}

Traffic Traffic::load(const std::filesystem::path& file) {
  const std::string text = kv::read_file(file, kMaxFileBytes);
  if (text.starts_with("{\"program\"")) {
    kv::user_error(
        "{0}: as the simulated GPU wrote it, without lines of source; "
        "`python3 tools/warp_trace.py {0} OUT.json` makes the file that is wanted here",
        file.string());
  }
  const kv::Json document = kv::parse_json(text, file.string());
  const kv::JsonObject json(document, file.string());
  Traffic traffic;
  traffic.made_by = json.string("made_by");
  for (const kv::Json& line : json.array("lines")) {
    const auto where = fmt::format("{}: line {}", file.string(), traffic.lines.size() + 1);
    traffic.lines.push_back(line_of(kv::JsonObject(line, where)));
  }
  if (traffic.lines.empty()) json.wrong("lines", "at least one line of a kernel");
  return traffic;
}

LaneMask active_lanes(const WarpRequest& request) {
  LaneMask mask = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    if (request.at[lane] >= 0) mask |= LaneMask{1} << lane;
  }
  return mask;
}

int Sector::num_wanted() const {
  return static_cast<int>(
      std::ranges::count_if(wanted_by, [](LaneMask mask) { return mask != 0; }));
}

std::vector<Sector> sectors_of(const WarpRequest& request, int bytes) {
  std::map<int64_t, Sector> sectors;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    const int64_t first = request.at[lane];
    for (int64_t byte = first; first >= 0 && byte < first + bytes; ++byte) {
      Sector& sector = sectors[byte / kSectorBytes];
      sector.number = byte / kSectorBytes;
      sector.wanted_by[static_cast<size_t>(byte % kSectorBytes)] |= LaneMask{1} << lane;
    }
  }
  std::vector<Sector> all;
  for (const auto& [number, sector] : sectors) all.push_back(sector);
  return all;
}

std::vector<BankPass> passes_of(const WarpRequest& request, int bytes) {
  std::vector<BankPass> passes;
  const size_t at_once = bytes <= kBankBytes ? kLanes : 128 / static_cast<size_t>(bytes);
  for (size_t first = 0; first < kLanes; first += at_once) {
    std::array<std::map<int64_t, LaneMask>, kBanks> words;  // of each bank, with who wants it
    for (size_t lane = first; lane < std::min<size_t>(first + at_once, kLanes); ++lane) {
      const int64_t begin = request.at[lane];
      if (begin < 0) continue;
      for (int64_t word = begin / kBankBytes; word <= (begin + bytes - 1) / kBankBytes; ++word) {
        words[static_cast<size_t>(word % kBanks)][word] |= LaneMask{1} << lane;
      }
    }
    const size_t before = passes.size();
    for (size_t bank = 0; bank < kBanks; ++bank) {
      size_t pass = before;
      for (const auto& [word, lanes] : words[bank]) {
        if (pass == passes.size()) passes.emplace_back();
        passes[pass].wanted_by[bank] = lanes;
        passes[pass++].word[bank] = word;
      }
    }
  }
  return passes;
}

}  // namespace viz
