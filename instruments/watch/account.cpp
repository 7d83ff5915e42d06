#include "instruments/watch/account.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "common/table.h"
#include "common/utf8.h"

namespace watch {
namespace {

using kv::with_commas;

constexpr size_t kWordColumns = 44;

/// The beginning of what only this chain has.
std::string own_words(const EventMirror& mirror, std::span<const BlockName> own,
                      const Words& words) {
  std::vector<int32_t> tokens;
  for (const BlockName& name : own) {
    const MirroredBlock& block = *mirror.find(name);
    tokens.insert(tokens.end(), block.tokens.begin(), block.tokens.end());
    if (tokens.size() > kWordColumns) break;
  }
  if (tokens.empty()) return "(the server does not say)";
  std::string text = words(tokens);
  text.erase(0, text.find_first_not_of(' '));
  if (kv::display_width(text) <= kWordColumns) return text;
  size_t end = 0;
  for (size_t column = 0; column < kWordColumns - 3; ++column) {
    end += kv::utf8_step(text, end).length;
  }
  return text.substr(0, end) + "..";
}

void print_chains(const kv::Console& console, const Watcher& watcher, size_t max_prefixes,
                  const Words& words) {
  const EventMirror& mirror = watcher.mirror();
  const std::vector<Chain> chains = mirror.chains();
  if (chains.empty() || max_prefixes == 0) return;
  kv::Table table({"a prefix; its own part begins", "blocks", "tokens", "its own", "came again"});
  for (const Chain& chain : std::span(chains).first(std::min(max_prefixes, chains.size()))) {
    const std::vector<BlockName> blocks = mirror.blocks_of(chain);
    const auto again = std::ranges::count_if(
        blocks, [&](const BlockName& name) { return mirror.find(name)->was_evicted; });
    table.add({fmt::format("{}{}", chain.headless ? "(its head is gone) " : "",
                           own_words(mirror, std::span(blocks).last(chain.num_own), words)),
               with_commas(std::ssize(blocks)), with_commas(chain.num_tokens),
               with_commas(static_cast<int64_t>(chain.num_own)), with_commas(again)});
  }
  console.print("\n{}", table.to_string());
  const size_t more = chains.size() - std::min(max_prefixes, chains.size());
  if (more > 0) {
    console.print("and {} more: --prefixes {}\n", with_commas(static_cast<int64_t>(more)),
                  chains.size());
  }
}

}  // namespace

std::string batch_header() {
  return fmt::format("{:>10}  {:>8}  {:>7}  {:>7}  {:>7}  {:>7}\n", "seconds", "batch", "stored",
                     "again", "removed", "stand");
}

std::string batch_line(const Watcher& watcher, const Frame& frame, const Watcher::Step& step) {
  std::string line;
  if (step.applied) {
    line = fmt::format("{:>10.3f}  {:>8}  {:>7}  {:>7}  {:>7}  {:>7}\n",
                       step.ts - watcher.first_ts(), frame.seq, step.changes.stored,
                       step.changes.again, step.changes.removed, watcher.mirror().num_blocks());
  }
  return step.note.empty() ? line : fmt::format("{}! {}\n", line, kv::one_line(step.note));
}

void print_account(const kv::Console& console, const Watcher& watcher, size_t max_prefixes,
                   const Words& words) {
  const Counts& counts = watcher.counts();
  const Changes& changes = counts.changes;
  const EventMirror& mirror = watcher.mirror();
  console.print("batches          {} in {:.2f} seconds\n", with_commas(counts.batches),
                watcher.last_ts() - watcher.first_ts());
  console.print("blocks stored    {}; {} of them had been evicted, and came again\n",
                with_commas(changes.stored), with_commas(changes.again));
  console.print("blocks evicted   {}\n", with_commas(changes.removed));
  const std::string cleared = kv::count_of(changes.cleared, "time");
  if (changes.cleared > 0) console.print("cache cleared    {}\n", cleared);
  console.print("blocks standing  {}\n", with_commas(mirror.num_blocks()));
  if (counts.restarts > 0) console.print("server restarts  {}\n", with_commas(counts.restarts));
  if (counts.batches + counts.unreadable == 0) {
    console.print("nothing came     what is in the cache is not known\n");
  } else if (watcher.is_complete()) {
    console.print("nothing missing  what is here is in the cache\n");
  } else {
    console.print(
        "missing          {}, {} that made no sense, {} of an unknown kind:\n"
        "                 the cache may hold other blocks than these\n",
        kv::count_of(counts.missing, "batch"),
        with_commas(counts.unreadable) +
            (counts.senseless == 0 ? "" : " and " + kv::count_of(counts.senseless, "event")),
        kv::count_of(counts.unknown, "event"));
    if (counts.unproven > 0) {
      console.print("server unproven  {}: after a gap or a lost connection it may be another one\n",
                    with_commas(counts.unproven));
    }
  }
  print_chains(console, watcher, max_prefixes, words);
}

nlohmann::json json_of(const Watcher& watcher) {
  const Counts& counts = watcher.counts();
  nlohmann::json chains = nlohmann::json::array();
  for (const Chain& chain : watcher.mirror().chains()) {
    chains.push_back({{"blocks", chain.num_blocks},
                      {"tokens", chain.num_tokens},
                      {"own_blocks", chain.num_own},
                      {"has_head", !chain.headless},
                      {"last_hash", hex(watcher.mirror().find(chain.last)->hash)}});
  }
  return {{"batches", counts.batches},
          {"missing_batches", counts.missing},
          {"repeated_batches", counts.repeated},
          {"unreadable_batches", counts.unreadable},
          {"senseless_events", counts.senseless},
          {"unknown_events", counts.unknown},
          {"unproven_servers", counts.unproven},
          {"server_restarts", counts.restarts},
          {"blocks_stored", counts.changes.stored},
          {"blocks_that_came_again", counts.changes.again},
          {"blocks_evicted", counts.changes.removed},
          {"times_cleared", counts.changes.cleared},
          {"blocks_standing", watcher.mirror().num_blocks()},
          {"next_number", watcher.next_seq()},
          {"complete", watcher.is_complete()},
          {"seconds", watcher.last_ts() - watcher.first_ts()},
          {"prefixes", std::move(chains)}};
}

}  // namespace watch
