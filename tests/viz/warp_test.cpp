// The numbers of a recording of the simulated GPU, counted again; and files that are none.

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/json.h"
#include "simt/page/picture.h"
#include "simt/page/traffic.h"
#include "tests/support/temp_dir.h"
#include "viz/drawing/layout.h"

namespace {

const std::filesystem::path kShipped = KV_SOURCE_DIR "/simt/page/traces";

/// Lane i touches byte first + i * step.
viz::WarpRequest every(int64_t step, int64_t first = 0) {
  viz::WarpRequest request;
  for (size_t i = 0; i < viz::kLanes; ++i) request.at[i] = first + static_cast<int64_t>(i) * step;
  return request;
}

size_t num_sectors(const viz::WarpRequest& request, int bytes) {
  return viz::sectors_of(request, bytes).size();
}
size_t num_passes(const viz::WarpRequest& request, int bytes) {
  return viz::passes_of(request, bytes).size();
}

/// A recording of one request, with pieces replaced.
std::string recording(const std::vector<std::pair<std::string, std::string>>& changes = {}) {
  std::string text = fmt::format(
      R"({{"made_by": "me", "lines": [{{"kernel": "k", "file": "a/k.cu", "line": 7, "text": "x = y[i];",
 "space": "global", "op": "load", "bytes": 4, "requests": 1, "wanted": 128, "moved": 4, "least": 4,
 "shown": [{{"block": [0, 0, 0], "warp": 0, "lanes": [{}]}}]}}]}})",
      fmt::join(every(4).at, ", "));
  for (const auto& [what, by] : changes) {
    REQUIRE(text.find(what) != std::string::npos);
    text.replace(text.find(what), what.size(), by);
  }
  return text;
}

viz::Traffic load(const kvtest::TempDir& dir, const std::string& text) {
  const auto file = dir.path() / "trace.json";
  std::ofstream(file, std::ios::binary) << text;
  return viz::Traffic::load(file);
}

}  // namespace

TEST_CASE("a warp's bytes lie in so many sectors of global memory") {
  CHECK(num_sectors(every(4), 4) == 4);        // neighbours
  CHECK(num_sectors(every(4, 16), 4) == 5);    // half a sector further
  CHECK(num_sectors(every(16), 16) == 16);     // 512 bytes
  CHECK(num_sectors(every(128), 4) == 32);     // a lane for each row
  CHECK(num_sectors(every(0, 8), 8) == 1);     // all want the same
  CHECK(num_sectors(every(32, 30), 4) == 33);  // each reaches into the next one
  viz::WarpRequest one = every(4);
  for (size_t i = 1; i < viz::kLanes; ++i) one.at[i] = -1;
  CHECK(viz::active_lanes(one) == 1);
  const viz::Sector sector = viz::sectors_of(one, 4).at(0);
  CHECK(sector.num_wanted() == 4);
  CHECK(sector.wanted_by[3] == 1);
  CHECK(sector.wanted_by[4] == 0);
}

TEST_CASE("a warp's words take so many passes through the banks") {
  CHECK(num_passes(every(4), 4) == 1);       // a bank for each lane
  CHECK(num_passes(every(0, 64), 4) == 1);   // one word for all
  CHECK(num_passes(every(8), 4) == 2);       // every other bank, twice
  CHECK(num_passes(every(128), 4) == 32);    // one bank
  CHECK(num_passes(every(33 * 4), 4) == 1);  // a word of padding in each row
  CHECK(num_passes(every(2), 2) == 1);       // two lanes in each word
  CHECK(num_passes(every(8), 8) == 2);       // 16 lanes at once
  CHECK(num_passes(every(16), 16) == 4);     // 8 lanes at once
  const std::vector<viz::BankPass> passes = viz::passes_of(every(8), 4);
  CHECK(passes[0].wanted_by[2] == 1u << 1);
  CHECK(passes[1].wanted_by[2] == 1u << 17);
  CHECK(passes[1].word[2] == 34);
  CHECK(passes[0].wanted_by[3] == 0);
}

TEST_CASE("the recordings that ship are whole, and their counts agree with their requests") {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(kShipped)) {
    CAPTURE(file.path().string());
    const viz::Traffic traffic = viz::Traffic::load(file.path());
    CHECK(traffic.made_by == "python3 tools/warp_trace.py --ship");
    for (const viz::TrafficLine& line : traffic.lines) {  // else make them again
      CAPTURE(line.text);
      const auto source = std::filesystem::path(KV_SOURCE_DIR) / line.file;
      CHECK(kv::read_file(source, 1 << 20).find(line.text) != std::string::npos);
    }
    CHECK(std::filesystem::file_size(file.path()) < 8192);
    ++files;
  }
  CHECK(files >= 5);
  const viz::Traffic strided = viz::Traffic::load(kShipped / "strided.json");
  const viz::TrafficLine& line = strided.lines.at(0);
  CHECK(std::ssize(line.shown) == line.requests);  // so load() has counted all of them again
  CHECK(line.moved == 8 * line.least);
  CHECK(line.place().starts_with("patterns.cu:"));
  CHECK(line.operation() == "load of 4 bytes");
}

TEST_CASE("every request that ships has a legible picture, and so has one of many lines") {
  std::vector<viz::Traffic> all;
  for (const auto& file : std::filesystem::directory_iterator(kShipped)) {
    all.push_back(viz::Traffic::load(file.path()));
  }
  all.push_back(all.front());
  while (all.back().lines.size() < 40) all.back().lines.push_back(all.back().lines[0]);
  for (const viz::Traffic& traffic : all) {
    for (int line = 0; line < std::ssize(traffic.lines); line += 3) {
      const int last = static_cast<int>(traffic.lines[static_cast<size_t>(line)].shown.size()) - 1;
      for (const viz::Room& room : {viz::Room{560, 330}, {860, 420}, {2300, 1200}}) {
        CAPTURE(room.w);
        CAPTURE(traffic.lines[static_cast<size_t>(line)].place());
        const viz::Scene scene = viz::warp_scene(room, {&traffic, line, last, 5, true});
        for (const std::string& fault : viz::layout_faults(scene)) FAIL_CHECK(fault);
        CHECK(scene.find(fmt::format("line {}", line + 1)) != nullptr);
        CHECK(scene.find("wire 5/0") != nullptr);
      }
    }
  }
}

TEST_CASE(
    "sectors travel to the warp for a load, from it for a store, and only when they are new") {
  viz::Traffic traffic = viz::Traffic::load(kShipped / "strided.json");
  const auto travels = [&](bool fresh) {
    const viz::Scene scene = viz::warp_scene({860, 420}, {&traffic, 0, 0, -1, fresh});
    CHECK(scene.ghosts().size() == (fresh ? 32 : 0));
    return fresh ? scene.ghosts()[0].to.y - scene.ghosts()[0].shape.at.y : 0;
  };
  CHECK(travels(true) < 0);
  travels(false);
  traffic.lines[0].store = true;
  CHECK(travels(true) > 0);
}

TEST_CASE("of what is moved only the part that no lane wants is hatched") {
  const std::pair<const char*, float> cases[] = {{"coalesced", 1.0f}, {"strided", 0.125f}};
  for (const auto& one : cases) {
    const std::string name = one.first;
    const float share = one.second;
    CAPTURE(name);
    const viz::Traffic traffic = viz::Traffic::load(kShipped / (name + ".json"));
    const viz::Scene scene = viz::warp_scene({900, 560}, {&traffic, 0, 0, -1, false});
    const viz::Shape* const vain = scene.find("moved in vain");
    const float wanted = scene.find("moved")->at.w;
    CHECK(scene.find("moved")->pattern != viz::Pattern::kHatched);
    CHECK(wanted == scene.find("wanted")->at.w);
    CHECK((vain == nullptr) == (share == 1));
    if (vain == nullptr) continue;
    CHECK(vain->pattern == viz::Pattern::kHatched);
    CHECK(wanted / (wanted + vain->at.w) == doctest::Approx(share));
  }
}

TEST_CASE("a recording says what its lines did") {
  const kvtest::TempDir dir;
  const viz::Traffic traffic = load(dir, recording());
  CHECK(traffic.made_by == "me");
  REQUIRE(traffic.lines.size() == 1);
  CHECK(traffic.lines[0].place() == "k.cu:7");
  CHECK(traffic.lines[0].shown.at(0).at[31] == 124);
  CHECK(load(dir, recording({{"120, 124]", "120, null]"}, {"128", "124"}}))
            .lines[0]
            .shown[0]
            .at[31] == -1);
}

TEST_CASE("a file that is no recording, or contradicts itself, is refused with its place") {
  const kvtest::TempDir dir;
  const std::pair<std::string, const char*> wrong[] = {
      {"", "trace.json"},
      {"[]", "trace.json"},
      {"{\"made_by\": \"me\", \"lines\": []}", "at least one line"},
      {"{\"program\": \"x\", \"kernel\": 4, \"launches\": 1}\n", "tools/warp_trace.py"},
      {recording({{"\"made_by\"", "\"by\""}}), "made_by"},
      {recording({{"global", "local"}}), "line 1: \"space\" is \"local\", wanted global or shared"},
      {recording({{"load", "fetch"}}), "wanted load or store"},
      {recording({{"\"bytes\": 4", "\"bytes\": 17"}}), "bytes"},
      {recording({{"\"requests\": 1", "\"requests\": 0"}}), "requests"},
      {recording({{"\"moved\": 4", "\"moved\": 5"}}), "wanted just 4"},
      {recording({{"\"moved\": 4", "\"moved\": 4"}, {"\"requests\": 1", "\"requests\": 2"}}),
       "wanted more than 4"},
      {recording({{"\"least\": 4", "\"least\": 9"}}), "wanted at most 4, the moved"},
      {recording({{"\"wanted\": 128", "\"wanted\": 129"}}), "wanted at most 128"},
      {recording({{"[0, 4, 8", "[0, 4"}}), "request 1: \"lanes\""},
      {recording({{"[0, 4, 8", "[0, -4, 8"}}), "lane 1"},
      {recording({{"[0, 4, 8", "[0, 4.5, 8"}}), "lane 1"},
      {recording({{"[0, 0, 0]", "[0, 0]"}}), "three numbers"},
      {recording({{"\"warp\": 0", "\"warp\": 32"}}), "warp"},
      {recording() + "x", "trace.json"}};
  for (const auto& one : wrong) {
    const auto& [text, what] = one;
    CAPTURE(one.first);
    CHECK_THROWS_WITH_AS(load(dir, text), doctest::Contains(what), kv::UserError);
  }
  CHECK_THROWS_WITH_AS(viz::Traffic::load(dir.path()), doctest::Contains("not a regular file"),
                       kv::UserError);
  CHECK_THROWS_WITH_AS(viz::Traffic::load("/none.json"), doctest::Contains("/none.json"),
                       kv::UserError);
}

TEST_CASE("a recording cut off at any byte is refused") {
  const kvtest::TempDir dir;
  const std::string whole = recording();
  for (size_t n = 0; n + 1 < whole.size(); ++n) {
    CAPTURE(n);
    CHECK_THROWS_AS(load(dir, whole.substr(0, n)), kv::UserError);
  }
}
