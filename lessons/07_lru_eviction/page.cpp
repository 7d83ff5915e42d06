#include "viz/page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <sstream>
#include <utility>

#include "common/base/error.h"
#include "page_eviction.h"
#include "viz/names.h"

namespace lesson07 {

viz::PageInfo EvictionPage::info() const {
  return {.lesson = "07",
          .title = "LRU eviction",
          .summary =
              "A freed block keeps what it holds, and waits at the end of the queue. Who "
              "stands in front goes first.",
          .commands = {"ask NAME \"WORDS\" [SALT]  a request: looked up, computed, published",
                       "more NAME \"WORDS\"        its answer goes on",
                       "free NAME                it ends: its blocks go to the queue, tail first",
                       "order append|unhashed    an empty pool; where freed blocks go",
                       "resize BLOCKS SIZE       an empty pool of BLOCKS blocks of SIZE tokens",
                       "forget                   reset the cache, if nobody uses a block"}};
}

void EvictionPage::restart(const PageSettings& settings) {
  settings_ = settings;
  named_.clear();
  last_evicted_.clear();
  manager_ =
      std::make_unique<BlockManager>(settings.num_blocks, settings.block_size, settings.order);
  manager_->pool().record_events(true);
}

std::string EvictionPage::apply(const viz::Command& command) {
  const std::string& verb = command.verb;
  if (verb == "ask") {
    command.check_count(2, 3);
    return ask(command.word(0, "a name"), command.word(1, "words"),
               command.args.size() > 2 ? command.args[2] : "");
  }
  if (verb == "more") {
    command.check_count(2, 2);
    return more(command.word(0, "a name"), command.word(1, "words"));
  }
  if (verb == "free") {
    command.check_count(1, 1);
    return free(command.word(0, "a name"));
  }
  if (verb == "forget") {
    command.check_count(0, 0);
    if (!manager_->reset_prefix_cache()) {
      kv::user_error("forget: refused, {} blocks are in use", manager_->pool().num_used());
    }
    manager_->pool().take_events();
    return "the cache is empty";
  }
  if (verb == "order" || verb == "resize") return settings(command);
  kv::user_error("{}: no such command; there are ask, more, free, order, resize, forget", verb);
}

std::string EvictionPage::settings(const viz::Command& command) {
  PageSettings settings = settings_;
  if (command.verb == "order") {
    command.check_count(1, 1);
    const std::string& how = command.word(0, "append or unhashed");
    if (how != "append" && how != "unhashed") {
      kv::user_error("order {}: wanted append or unhashed", how);
    }
    settings.order = how == "append" ? FreeOrder::kAppend : FreeOrder::kUnhashedFirst;
  } else {
    command.check_count(2, 2);
    settings.num_blocks = static_cast<int>(command.number(0, "a number of blocks", 1, 1024));
    settings.block_size = static_cast<int>(command.number(1, "a block size", 1, 64));
    if (!std::has_single_bit(static_cast<unsigned>(settings.block_size))) {
      kv::user_error("block size {}: wanted a power of two", settings.block_size);
    }
  }
  restart(settings);
  return fmt::format("an empty pool: {} blocks of {}", settings.num_blocks, settings.block_size);
}

std::vector<int32_t> EvictionPage::tokens_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<int32_t> tokens;
  for (std::string word; in >> word;) {
    const auto [entry, added] = ids_.emplace(word, static_cast<int32_t>(words_.size()));
    if (added) words_.push_back(word);
    tokens.push_back(entry->second);
  }
  if (tokens.empty()) kv::user_error("wanted at least one word");
  return tokens;
}

std::string EvictionPage::words(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    text += (text.empty() ? "" : " ") + words_[static_cast<size_t>(token)];
  }
  return text;
}

/// "; 2 blocks revived; 1 evicted: block 7, ..." and notes the last victim.
std::string EvictionPage::what_happened(const CacheMetrics& before) {
  const CacheMetrics& now = manager_->pool().metrics();
  std::string story;
  if (const int64_t n = now.num_revived - before.num_revived; n > 0) {
    story += fmt::format("; {} free {} revived", n, n == 1 ? "block" : "blocks");
  }
  std::vector<int32_t> evicted;
  for (const CacheEvent& event : manager_->pool().take_events()) {
    if (event.kind == CacheEvent::Kind::kRemoved) evicted.push_back(event.block_id);
  }
  if (!evicted.empty()) {
    const size_t shown = std::min<size_t>(evicted.size(), 8);
    story += fmt::format("; evicted: {}{}", fmt::join(std::span(evicted).first(shown), ", "),
                         shown < evicted.size() ? " .." : "");
    last_evicted_ = fmt::format(
        "Last evicted: {} {}. It stood in front: of all free blocks it was used longest ago.",
        evicted.size() == 1 ? "block" : "blocks", fmt::join(std::span(evicted).first(shown), ", "));
  }
  return story;
}

std::string EvictionPage::ask(const std::string& name, const std::string& text,
                              const std::string& salt) {
  if (name.empty() || name.size() > 8) kv::user_error("name \"{}\": wanted 1 to 8 letters", name);
  if (named_.contains(name)) kv::user_error("there is a request {} already", name);
  if (named_.size() >= kMaxNamed) {
    kv::user_error("there are {} requests, the most the page shows; free one", kMaxNamed);
  }
  std::vector<int32_t> tokens = tokens_of(text);
  ExtraKeys keys;
  if (!salt.empty()) keys.push_back({ExtraKey::Kind::kSalt, salt});
  const CacheMetrics before = manager_->pool().metrics();
  const auto start = manager_->start(tokens, keys);
  if (!start) {
    kv::user_error("ask {}: too few blocks are free ({}); nothing has changed", name,
                   manager_->pool().num_free());
  }
  manager_->publish(start->seq, tokens);
  const int hue = viz::free_hue(named_);
  const size_t count = tokens.size();
  named_[name] = {start->seq, hue, start->num_cached_tokens, std::move(tokens)};
  return fmt::format("{}: {} of {} tokens from the cache", name, start->num_cached_tokens, count) +
         what_happened(before);
}

Named& EvictionPage::find(const std::string& name) {
  const auto found = named_.find(name);
  if (found == named_.end()) kv::user_error("there is no request {}", name);
  return found->second;
}

std::string EvictionPage::more(const std::string& name, const std::string& text) {
  Named& request = find(name);
  const std::vector<int32_t> tokens = tokens_of(text);
  const CacheMetrics before = manager_->pool().metrics();
  const Growth growth{.seq = request.seq, .num_tokens = static_cast<int>(tokens.size())};
  if (!manager_->extend({&growth, 1})) {
    kv::user_error("more {}: too few blocks are free ({}); nothing has changed", name,
                   manager_->pool().num_free());
  }
  request.tokens.insert(request.tokens.end(), tokens.begin(), tokens.end());
  manager_->publish(request.seq, request.tokens);
  return fmt::format("{}: {} more tokens", name, tokens.size()) + what_happened(before);
}

std::string EvictionPage::free(const std::string& name) {
  const Named& request = find(name);
  const auto ids = manager_->table(request.seq).block_ids();
  const std::vector<int32_t> reversed(ids.rbegin(), ids.rend());
  manager_->free_sequence(request.seq);
  named_.erase(name);
  const size_t shown = std::min<size_t>(reversed.size(), 8);
  return fmt::format("free {}: {}{} to the queue, the tail first", name,
                     fmt::join(std::span(reversed).first(shown), ", "),
                     shown < reversed.size() ? " .." : "");
}

std::string EvictionPage::free_name() const { return viz::free_name(named_); }

std::optional<int64_t> EvictionPage::counter(std::string_view name) const {
  const BlockPool& pool = manager_->pool();
  if (name == "total") return pool.num_blocks();
  if (name == "free") return pool.num_free();
  if (name == "used") return pool.num_used();
  if (name == "cached") return pool.num_cached();
  if (name == "revived") return pool.metrics().num_revived;
  if (name == "evicted") return pool.metrics().num_evicted;
  if (name == "asked") return manager_->num_tokens_asked();
  if (name == "found") return manager_->num_tokens_found();
  if (name == "requests") return static_cast<int64_t>(named_.size());
  if (name == "front") return pool.queue().empty() ? -1 : pool.queue().all().front()->id;
  if (name == "back") return pool.queue().empty() ? -1 : pool.queue().all().back()->id;
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const auto found = named_.find(std::string(name.substr(0, dot)));
  if (found == named_.end()) return std::nullopt;
  if (name.substr(dot) == ".tokens") return static_cast<int64_t>(found->second.tokens.size());
  if (name.substr(dot) == ".cached") return found->second.num_cached_tokens;
  return std::nullopt;
}

std::vector<std::string> EvictionPage::counter_names() const {
  std::vector<std::string> all{"total", "free",  "used",     "cached", "revived", "evicted",
                               "asked", "found", "requests", "front",  "back"};
  for (const auto& [name, request] : named_) {
    all.push_back(name + ".tokens");
    all.push_back(name + ".cached");
  }
  return all;
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext&) {
  return std::make_unique<EvictionPage>();
}

}  // namespace lesson07
