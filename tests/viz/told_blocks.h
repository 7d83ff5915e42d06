#pragma once

// What the sentences of a page say of numbers of blocks, compared with its counters.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "viz/page.h"

namespace kvtest {

using Counts = std::map<std::string, int64_t>;
inline Counts counts_of(const viz::Page& page) {
  Counts counts;
  for (const viz::Counter& counter : page.counters()) counts[counter.name] = counter.value;
  return counts;
}

/// What happened, and what the picture says of it: a paragraph is one line.
inline std::string told_by(viz::Page& page, const std::string& story) {
  std::string all = story, last;
  const viz::Scene scene = page.scene({900, 560});
  for (const viz::Shape& shape : scene.shapes()) {
    if (shape.kind != viz::Shape::Kind::kText) continue;
    const std::string id = shape.id.substr(0, shape.id.rfind(' '));
    all += (id == last ? " " : "\n") + shape.text;
    last = id;
  }
  return all;
}

/// Compares every sentence that counts blocks; returns how many did.
inline int check_told(const std::string& told, const Counts& before, const Counts& after) {
  const auto now = [&](const char* name) {
    return [&, name](const std::smatch&) { return after.at(name); };
  };
  const auto grown = [&](const char* name, int64_t sign = 1) {
    return
        [&, name, sign](const std::smatch&) { return sign * (after.at(name) - before.at(name)); };
  };
  struct Claim {
    const char* words;  // the first group is a number
    std::vector<const char*> counters;
    std::function<int64_t(const std::smatch&)> wanted;
  };
  const std::vector<Claim> claims{
      {R"((\d+|no) new blocks?\b)", {"free"}, grown("free", -1)},
      {R"(the (new) block \d)", {"free"}, grown("free", -1)},
      {R"((\d+) blocks? back to the pool)", {"free"}, grown("free")},
      {R"(needs \d+ blocks?(?: to start)?, (\d+|none) (?:is|are) free(?!:))",
       {"free"},
       now("free")},
      {R"((\d+) of \d+ blocks? free)", {"free"}, now("free")},
      {R"(taken away: (\d+) free)", {"free"}, now("free")},
      {R"(pool of (\d+) blocks?)", {"total"}, now("total")},
      {R"(empty pool: (\d+) blocks?)", {"total"}, now("total")},
      {R"((\d+) blocks? copied on write)", {"copies"}, grown("copies")},
      {R"((\d+) saved by sharing)", {"saved"}, now("saved")},
      {R"((\d+) (?:blocks? )?found in the queue)", {"revived"}, grown("revived")},
      {R"((\d+) overwritten)", {"evicted"}, grown("evicted")},
      {R"(file still lacks (\d+) blocks?)", {"unsaved"}, now("unsaved")},
      {R"(finds (\d+) blocks? whole in the file)", {"restored"}, now("restored")},
      {R"(asks the store for (\d+) blocks?)", {"asked_for"}, grown("asked_for")},
      {R"(The store gets (\d+) blocks?)", {"put"}, grown("put")}};
  int checked = 0;
  const bool grows = std::regex_search(told, std::regex(" grows? by "));
  if (after.contains("copies") && grows) {  // each copy is told
    int64_t copies = 0;
    for (size_t at = 0; (at = told.find("was shared, so", at)) != told.npos; ++at) ++copies;
    CHECK(copies == after.at("copies") - before.at("copies"));
  }
  for (const Claim& claim : claims) {
    const auto counted = [&](const char* name) { return before.contains(name); };
    if (!std::ranges::all_of(claim.counters, counted)) continue;
    const std::regex words(claim.words);
    for (std::sregex_iterator at(told.begin(), told.end(), words), end; at != end; ++at) {
      const std::string number = (*at)[1];
      const bool none = number == "no" || number == "none", one = number == "new";
      CAPTURE(told);
      CAPTURE(at->str());
      CHECK((none ? 0 : one ? 1 : std::stoll(number)) == claim.wanted(*at));
      ++checked;
    }
  }
  return checked;
}

}  // namespace kvtest
