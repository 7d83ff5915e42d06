#include "instruments/route/upstream.h"

#include <algorithm>

namespace route {

Prompt Prompts::size() const {
  Prompt size{.tokens = 0, .blocks = 0, .block_size = block_size};
  for (const One& one : all) {
    size.tokens += one.tokens;
    size.blocks += std::ssize(one.blocks);
  }
  return size;
}

int64_t Prompts::num_findable() const {
  int64_t blocks = 0;
  for (const One& one : all) blocks += std::max<int64_t>(0, one.tokens - 1) / block_size;
  return blocks;
}

/// At most all tokens but the last one, which gives the logits. Blocks of a request that waits
/// there count: they will be there first.
int64_t Upstream::cached(const Prompts::One& prompt, int block_size) const {
  const int64_t found = length_of_run(prompt.blocks, [&](uint64_t block) {
    return mirror.has(block) || expected_.contains(block);
  });
  return std::min(found, std::max<int64_t>(0, prompt.tokens - 1) / block_size);
}

ServerView Upstream::view(const Prompts& prompts, std::span<const int64_t> in_store) const {
  ServerView view{.tree_blocks = sent_.num_blocks(),
                  .waiting_tokens = waiting_tokens(),
                  .held_blocks = held_blocks_,
                  .pool_blocks = std::max<int64_t>(1, mirror.pool_blocks()),
                  .waiting = num_waiting_,
                  .running = num_running()};
  for (size_t i = 0; i < prompts.all.size(); ++i) {
    const Prompts::One& one = prompts.all[i];
    const int64_t found = cached(one, prompts.block_size);
    view.cached_blocks += found;
    view.sent_blocks += sent_.num_found(one.blocks);
    if (!in_store.empty()) view.store_blocks += std::max<int64_t>(0, in_store[i] - found);
  }
  return view;
}

int64_t Upstream::begin(std::shared_ptr<const Prompts> prompts, bool stream,
                        Clock::time_point now) {
  count_time(now);
  Request request{.prompts = std::move(prompts), .done = {}, .stream = stream};
  for (const Prompts::One& one : request.prompts->all) {
    request.done.push_back(cached(one, request.prompts->block_size));
    sent_.use(one.blocks);
  }
  request.missing = tokens_left(request);
  for (const Prompts::One& one : request.prompts->all) {
    held_blocks_ += std::ssize(one.blocks);
    for (const uint64_t block : one.blocks) ++expected_[block];
  }
  ++num_waiting_;
  requests_.emplace(next_, std::move(request));
  cache_changed(now);
  return next_++;
}

void Upstream::first_byte(int64_t request, Clock::time_point now) {
  const auto found = requests_.find(request);
  if (found == requests_.end() || !found->second.waits) return;
  found->second.done.clear();  // nothing is left
  computed(found->second, now);
}

void Upstream::end(int64_t request, Clock::time_point now) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  if (found->second.waits) computed(found->second, now);
  for (const Prompts::One& one : found->second.prompts->all) {
    held_blocks_ -= std::ssize(one.blocks);
  }
  requests_.erase(found);
}

void Upstream::cache_changed(Clock::time_point now) {
  for (auto& [number, request] : requests_) {
    if (!request.waits) continue;
    bool all_done = true;
    for (size_t i = 0; i < request.done.size(); ++i) {
      const std::vector<uint64_t>& blocks = request.prompts->all[i].blocks;
      int64_t& done = request.done[i];
      while (done < std::ssize(blocks) && mirror.has(blocks[static_cast<size_t>(done)])) ++done;
      all_done = all_done && done == std::ssize(blocks);
    }
    // The first byte of an answer that is no stream is its end. So it waits as long as its blocks.
    if (all_done && !request.stream) computed(request, now);
  }
}

void Upstream::computed(Request& request, Clock::time_point now) {
  count_time(now);
  tokens_computed_ += static_cast<double>(request.missing - tokens_left(request));
  request.waits = false;
  --num_waiting_;
  for (const Prompts::One& one : request.prompts->all) {
    for (const uint64_t block : one.blocks) {
      const auto found = expected_.find(block);
      if (--found->second == 0) expected_.erase(found);
    }
  }
}

/// Adds the time since the last call, if a prompt waited. After a minute, half of all is forgotten.
void Upstream::count_time(Clock::time_point now) {
  constexpr double kRemembered = 60;
  if (num_waiting_ > 0) {
    seconds_busy_ += std::chrono::duration<double>(now - counted_until_).count();
  }
  counted_until_ = now;
  if (seconds_busy_ > kRemembered) {
    seconds_busy_ /= 2;
    tokens_computed_ /= 2;
  }
}

int64_t Upstream::tokens_left(const Request& request) {
  int64_t tokens = 0;
  for (size_t i = 0; i < request.done.size(); ++i) {
    tokens += request.prompts->all[i].tokens - request.done[i] * request.prompts->block_size;
  }
  return tokens;
}

int64_t Upstream::waiting_tokens() const {
  int64_t tokens = 0;
  for (const auto& [number, request] : requests_) {
    if (request.waits) tokens += tokens_left(request);
  }
  return tokens;
}

std::vector<double> rates_of(std::span<const Upstream* const> servers) {
  constexpr double kApart = 1.5, kLeastSeconds = 0.1;
  double tokens = 0, seconds = 0;
  for (const Upstream* one : servers) {
    tokens += one->tokens_computed();
    seconds += one->seconds_busy();
  }
  const double mean = tokens > 0 && seconds >= kLeastSeconds ? tokens / seconds : 1;
  std::vector<double> rates(servers.size(), mean);
  for (size_t i = 0; i < rates.size() && mean != 1; ++i) {
    if (servers[i]->seconds_busy() < kLeastSeconds || servers[i]->tokens_computed() <= 0) continue;
    const double own = servers[i]->tokens_computed() / servers[i]->seconds_busy();
    if (own >= mean * kApart || own <= mean / kApart) rates[i] = own;
  }
  return rates;
}

}  // namespace route
