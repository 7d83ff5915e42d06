#include "store_worker.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "lessons/12_file_tier/checksum_blocks.h"

namespace lesson13 {
namespace {

/// A store answers a trip from its memory, all values at once: more bytes in one trip only make its
/// buffers longer.
constexpr size_t kBytesPerTrip = size_t{4} << 20;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

StoreWorker::StoreWorker(BlockStore& store, const HostBlocks& host, Run run)
    : store_(store), host_(host) {
  if (run == Run::kThread) thread_ = std::thread([this] { this->run(); });
}

StoreWorker::~StoreWorker() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  added_.notify_one();
  thread_.join();
}

/// Makes the first job. Whatever fails, also memory for a value, costs this job its answer and no
/// more.
void StoreWorker::attempt(auto& jobs, auto& done, std::unique_lock<std::mutex>& lock) noexcept {
  std::remove_reference_t<decltype(jobs)> job;
  job.splice(job.end(), jobs, jobs.begin());
  is_busy_ = true;
  lock.unlock();
  try {
    make(job.front());
  } catch (...) {
  }
  lock.lock();
  is_busy_ = false;
  done.splice(done.end(), job);
  done_.notify_all();
}

void StoreWorker::start(std::list<Fetch> fetches) noexcept {
  std::unique_lock lock(mutex_);
  fetches_.splice(fetches_.end(), fetches);
  while (!thread_.joinable() && !fetches_.empty()) attempt(fetches_, done_fetches_, lock);
  added_.notify_one();
}

void StoreWorker::start(std::list<Put> puts) noexcept {
  std::unique_lock lock(mutex_);
  puts_.splice(puts_.end(), puts);
  while (!thread_.joinable() && !puts_.empty()) attempt(puts_, done_puts_, lock);
  added_.notify_one();
}

std::list<Fetch> StoreWorker::take_fetch() noexcept {
  const std::lock_guard lock(mutex_);
  std::list<Fetch> first;
  if (!done_fetches_.empty()) first.splice(first.end(), done_fetches_, done_fetches_.begin());
  return first;
}

std::list<Put> StoreWorker::take_puts() noexcept {
  const std::lock_guard lock(mutex_);
  return std::exchange(done_puts_, {});
}

bool StoreWorker::idle() {
  const std::lock_guard lock(mutex_);
  return !is_busy_ && fetches_.empty() && puts_.empty() && done_fetches_.empty() &&
         done_puts_.empty();
}

void StoreWorker::wait(std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  done_.wait_for(lock, longest, [&] {
    const bool has_work = is_busy_ || !fetches_.empty() || !puts_.empty();
    return !has_work || !done_fetches_.empty() || !done_puts_.empty();
  });
}

/// Fetches come first: a request waits for them, and none waits for a put.
void StoreWorker::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    added_.wait(lock, [&] { return stop_ || !fetches_.empty() || !puts_.empty(); });
    if (stop_) return;
    fetches_.empty() ? attempt(puts_, done_puts_, lock) : attempt(fetches_, done_fetches_, lock);
  }
}

void StoreWorker::make(Fetch& fetch) {
  if (fetch.host_ids.empty()) {
    const auto found = store_.find(fetch.names);
    fetch.num_found = found.value_or(0);
    fetch.unreachable = !found;
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  const size_t size = fetch.tokens.size() / fetch.names.size();
  const size_t per_trip = std::max(kBytesPerTrip / format_.bytes_per_block, size_t{1});
  for (size_t at = 0; at < fetch.names.size() && fetch.checksums.size() == at; at += per_trip) {
    const auto names = std::span(fetch.names).subspan(at);
    store_.get(names.first(std::min(per_trip, names.size())),
               [&](size_t i, std::string_view value) {
                 if (fetch.checksums.size() < at + i) return;  // the block before it is damaged
                 const auto tokens = std::span(fetch.tokens).subspan((at + i) * size, size);
                 const auto content = host_.block(fetch.host_ids[at + i]);
                 const auto checksum = format_.decode(value, names[i], tokens, content);
                 if (!checksum) {
                   ++fetch.num_damaged;
                   return;
                 }
                 fetch.checksums.push_back(*checksum);
                 if (fetch.wants_digests) fetch.digests.push_back(kv::sha256(text_of(content)));
               });
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  fetch.seconds = took.count();
}

void StoreWorker::make(Put& put) {
  const std::span<const std::byte> content = host_.block(put.host_id);
  put.outcome = Put::Outcome::kDamaged;
  if (lesson12::checksum_of(content) != put.checksum) return;
  put.poisoned = put.stored && *put.stored != kv::sha256(text_of(content));
  const bool kept =
      store_.put(put.name, format_.encode(put.name, put.tokens, put.checksum, content));
  put.outcome = kept ? Put::Outcome::kPut : Put::Outcome::kNotPut;
}

}  // namespace lesson13
