#include "viz/page.h"

#include <fmt/format.h>

#include <utility>

#include "page_eviction.h"

namespace lesson07 {
namespace {

/// "3, 2, 1", or the first few of many.
std::string listed(std::span<const int32_t> ids) {
  const size_t shown = std::min<size_t>(ids.size(), 8);
  return fmt::format("{}{}", fmt::join(ids.first(shown), ", "), shown < ids.size() ? " .." : "");
}

}  // namespace

EvictionPage::EvictionPage()
    : Page({.lesson = "07",
            .title = "LRU eviction",
            .summary = "A freed block keeps what it holds, and waits at the end of the queue. Who "
                       "stands in front goes first."}) {
  const viz::Argument name = viz::word("NAME");
  const viz::Argument words =
      viz::text("WORDS").field("words", "you are a kind guide tell me of paris");
  declare({{"ask",
            {name, words, viz::word("SALT").or_else("")},
            "request NAME: look its beginning up, compute the rest, cache what has become full; "
            "requests with one salt meet only their own kind",
            [this](auto& w) { return ask(w[0].text, w[1].text, w[2].text); },
            [this](auto& w) {
              if (viz::words_in(w[1].text) == 0) return std::string("there are no words");
              return asked_.why_not_add(w[0].text);
            }},
           {"more",
            {name, words},
            "the answer of NAME goes on: WORDS",
            [this](auto& w) { return more(w[0].text, w[1].text); },
            [this](auto& w) { return why_not_more(w[0].text, viz::words_in(w[1].text)); }},
           {"free",
            {name},
            "NAME ends; what its full blocks hold stays as long as nobody needs the room",
            [this](auto& w) { return free(w[0].text); }}});
  declare_pools();
  reset();
}

void EvictionPage::declare_pools() {
  declare({{"order",
            {viz::choice("append|unhashed")},
            "an empty pool that appends every freed block, or puts those nobody can find in front",
            [this](auto& w) {
              const bool append = w[0].text == "append";
              return restart({settings_.num_blocks, settings_.block_size,
                              append ? FreeOrder::kAppend : FreeOrder::kUnhashedFirst});
            }},
           {"resize",
            {viz::number("BLOCKS", 1, 1024), viz::power_of_two("SIZE", 64)},
            "an empty pool of BLOCKS x SIZE tokens",
            [this](auto& w) {
              return restart({w[0].number, w[1].number, settings_.order});
            }},
           {"forget",
            {},
            "reset the cache",
            [this](auto&) {
              pool_->reset_prefix_cache();
              return "the cache is empty";
            },
            [this](auto&) {
              const int used = pool_->num_used();
              return used > 0 ? kv::count_of(used, "block") + " in use" : "";
            }}});
}

std::string EvictionPage::restart(const PageSettings& settings) {
  settings_ = settings;
  asked_.clear();
  evicted_.clear();
  last_evicted_.clear();
  next_id_ = num_asked_ = num_found_ = 0;
  pool_ = std::make_unique<BlockPool>(settings.num_blocks, settings.block_size, settings.order);
  pool_->set_event_sink([this](const CacheEvent& event) {
    if (event.kind == CacheEvent::Kind::kRemoved) evicted_.push_back(event.block_id);
  });
  manager_ = std::make_unique<KvCacheManager>(*pool_);
  return fmt::format("an empty pool: {} of {}", kv::count_of(settings.num_blocks, "block"),
                     settings.block_size);
}

/// "; 2 free blocks revived; evicted: 7, 6" and notes the last victims.
std::string EvictionPage::what_happened(int64_t revived_before) {
  std::string story;
  if (const int64_t n = pool_->metrics().num_revived - revived_before; n > 0) {
    story += fmt::format("; {} revived", kv::count_of(n, "free block"));
  }
  const std::vector<int32_t> evicted = std::exchange(evicted_, {});
  if (!evicted.empty()) {
    story += "; evicted: " + listed(evicted);
    last_evicted_ = fmt::format(
        "Last evicted: {} {}. It stood in front: of all free blocks it was used longest ago.",
        evicted.size() == 1 ? "block" : "blocks", listed(evicted));
  }
  return story;
}

std::string EvictionPage::why_not_more(const std::string& name, int num_tokens) const {
  const int num_free = pool_->num_free();
  const int needed = manager_->table(asked_.at(name).id).blocks_to_extend(num_tokens);
  if (num_tokens == 0) return "there are no words";
  return needed <= num_free ? "" : fmt::format("too few blocks are free ({})", num_free);
}

std::string EvictionPage::ask(const std::string& name, const std::string& text,
                              const std::string& salt) {
  std::vector<int32_t> tokens = vocabulary_.tokens(text);
  ExtraKeys keys;
  if (!salt.empty()) keys.push_back({ExtraKey::Kind::kSalt, salt});
  const int64_t revived_before = pool_->metrics().num_revived;
  const auto computed = manager_->get_computed_blocks(tokens, keys);
  const auto num_tokens = static_cast<int>(tokens.size());
  if (!manager_->allocate_slots(next_id_, num_tokens - computed.num_tokens, computed)) {
    kv::user_error("ask {}: too few blocks are free ({}); nothing has changed", name,
                   pool_->num_free());
  }
  manager_->cache_blocks(next_id_, tokens, num_tokens);
  num_asked_ += num_tokens;
  num_found_ += computed.num_tokens;
  asked_.add(name, {{}, next_id_++, computed.num_tokens, std::move(tokens)});
  return fmt::format("{}: {} of {} from the cache", name, computed.num_tokens,
                     kv::count_of(num_tokens, "token")) +
         what_happened(revived_before);
}

std::string EvictionPage::more(const std::string& name, const std::string& text) {
  Asked& request = asked_.at(name);
  const std::vector<int32_t> tokens = vocabulary_.tokens(text);
  const int64_t revived_before = pool_->metrics().num_revived;
  manager_->allocate_slots(request.id, static_cast<int>(tokens.size()));
  request.tokens.insert(request.tokens.end(), tokens.begin(), tokens.end());
  manager_->cache_blocks(request.id, request.tokens, static_cast<int>(request.tokens.size()));
  return fmt::format("{}: {} more", name, kv::count_of(std::ssize(tokens), "token")) +
         what_happened(revived_before);
}

std::string EvictionPage::free(const std::string& name) {
  const int64_t id = asked_.at(name).id;
  const auto ids = manager_->table(id).block_ids();
  const std::vector<int32_t> reversed(ids.rbegin(), ids.rend());
  manager_->free(id);
  asked_.erase(name);
  return fmt::format("free {}: {} to the queue, the tail first", name, listed(reversed));
}

std::vector<viz::Counter> EvictionPage::counters() const {
  const BlockPool& pool = *pool_;
  const bool none = pool.queue().empty();
  std::vector<viz::Counter> all{
      {"total", pool.num_blocks()},
      {"free", pool.num_free(), "free", "Blocks in the queue.",
       fmt::format("{} / {}", pool.num_free(), pool.num_blocks())},
      {"used", pool.num_used(), "used", "Blocks in a table."},
      {"cached", pool.num_cached(), "cached", "Blocks that can be found, used or free."},
      {"revived", pool.metrics().num_revived, "revived",
       "Free blocks that a hit took out of the queue."},
      {"evicted", pool.metrics().num_evicted, "evicted",
       "Blocks that lost what they held, as room was needed."},
      {"asked", num_asked_},
      {"found", num_found_},
      viz::share("hit_permille", num_found_, num_asked_, "hit rate",
                 "Tokens from the cache, as a share of those asked for."),
      {"requests", std::ssize(asked_.names())},
      {"front", none ? -1 : pool.queue().all().front()->id},
      {"back", none ? -1 : pool.queue().all().back()->id},
  };
  for (const Asked& request : asked_) {
    all.push_back({request.name + ".tokens", std::ssize(request.tokens)});
    all.push_back({request.name + ".cached", request.num_cached_tokens});
  }
  return all;
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext&) {
  return std::make_unique<EvictionPage>();
}

}  // namespace lesson07
