#include "store_worker.h"

#include <algorithm>
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

StoreWorker::StoreWorker(BlockStore& store, const ValueFormat& format, const HostBlocks& host,
                         Run run)
    : store_(store), format_(format), host_(host) {
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

/// Whatever fails, also memory for a value, costs this job its answer and no more.
void StoreWorker::attempt(auto& job) noexcept {
  try {
    make(job);
  } catch (...) {
  }
}

void StoreWorker::start(Fetch fetch) {
  if (!thread_.joinable()) {
    attempt(fetch);
    done_fetches_.push_back(std::move(fetch));
    return;
  }
  const std::lock_guard lock(mutex_);
  fetches_.push_back(std::move(fetch));
  added_.notify_one();
}

void StoreWorker::start(Put put) {
  if (!thread_.joinable()) {
    attempt(put);
    done_puts_.push_back(std::move(put));
    return;
  }
  const std::lock_guard lock(mutex_);
  puts_.push_back(std::move(put));
  added_.notify_one();
}

std::vector<Fetch> StoreWorker::take_fetches() {
  const std::lock_guard lock(mutex_);
  return std::exchange(done_fetches_, {});
}

std::vector<Put> StoreWorker::take_puts() {
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
    is_busy_ = true;
    const auto make_first = [&](auto& jobs, auto& done) {
      auto job = std::move(jobs.front());
      jobs.pop_front();
      lock.unlock();
      attempt(job);
      lock.lock();
      done.push_back(std::move(job));
    };
    fetches_.empty() ? make_first(puts_, done_puts_) : make_first(fetches_, done_fetches_);
    is_busy_ = false;
    done_.notify_all();
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
                 if (fetch.wants_digests) fetch.digests.push_back(digest_of(text_of(content)));
               });
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  fetch.seconds = took.count();
}

void StoreWorker::make(Put& put) {
  const std::span<const std::byte> content = host_.block(put.host_id);
  put.outcome = Put::Outcome::kDamaged;
  if (lesson12::checksum_of(content) != put.checksum) return;
  put.poisoned = put.stored && *put.stored != digest_of(text_of(content));
  const bool kept =
      store_.put(put.name, format_.encode(put.name, put.tokens, put.checksum, content));
  put.outcome = kept ? Put::Outcome::kPut : Put::Outcome::kNotPut;
}

}  // namespace lesson13
