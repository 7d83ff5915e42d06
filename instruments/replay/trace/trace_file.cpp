#include "instruments/replay/trace/trace_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "common/error.h"
#include "common/table.h"

namespace replay {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr size_t kMaxLine = size_t{64} << 20;
constexpr size_t kBatchIds = size_t{1} << 17;

gzFile gz(void* file) { return static_cast<gzFile>(file); }

/// A prefix has one number, so no request has one twice.
void refuse_twins(std::span<const uint64_t> ids, const std::string& where) {
  if (std::adjacent_find(ids.begin(), ids.end(), std::greater_equal()) == ids.end()) return;
  std::vector<uint64_t> sorted(ids.begin(), ids.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twin = std::adjacent_find(sorted.begin(), sorted.end());
  if (twin != sorted.end()) {
    kv::user_error("{}: hash id {} occurs twice; wanted one for each prefix of the prompt", where,
                   *twin);
  }
}

}  // namespace

void Batch::clear() {
  ids.clear();
  ends.clear();
  sizes.clear();
}

std::span<const uint64_t> Batch::request(size_t i) const {
  const size_t begin = i == 0 ? 0 : ends[i - 1];
  return std::span(ids).subspan(begin, ends[i] - begin);
}

TimeUnit time_unit_of(const std::string& name) {
  if (name == "auto") return TimeUnit::kUnknown;
  return name == "s" ? TimeUnit::kSeconds : TimeUnit::kMilliseconds;
}

TraceReader::TraceReader(const std::filesystem::path& file, int block_size, TimeUnit unit)
    : name_(file.string()),
      block_size_(block_size),
      given_(block_size > 0),
      unit_(unit),
      buffer_(kBufferBytes) {
  std::error_code error;
  const auto status = std::filesystem::status(file, error);
  if (!std::filesystem::exists(status)) {
    kv::user_error("{}: no such file; wanted a trace, a JSON object on each line", name_);
  }
  if (std::filesystem::is_directory(status)) {
    kv::user_error("{}: a folder; wanted a trace, a JSON object on each line", name_);
  }
  if (std::filesystem::is_regular_file(status)) {
    bytes_ = static_cast<int64_t>(std::filesystem::file_size(file, error));
  }
  file_ = gzopen(name_.c_str(), "rb");
  if (file_ == nullptr) {
    kv::user_error("{}: cannot be read: {}", name_, std::strerror(errno));
  }
  gzbuffer(gz(file_), static_cast<unsigned>(kBufferBytes));
}

TraceReader::~TraceReader() { gzclose(gz(file_)); }

int64_t TraceReader::bytes_read() const { return gzoffset(gz(file_)); }

std::string TraceReader::where() const { return fmt::format("{}, line {}", name_, line_number_); }

bool TraceReader::read_more() {
  const int count = gzread(gz(file_), buffer_.data(), static_cast<unsigned>(buffer_.size()));
  begin_ = 0;
  end_ = count > 0 ? static_cast<size_t>(count) : 0;
  if (count > 0) return true;  // what is wrong after it is said when it is needed
  int code = Z_OK;
  const char* const what = gzerror(gz(file_), &code);
  if (code == Z_BUF_ERROR) {  // the data ends before gzip's own end
    kv::user_error("{}: the gzip file ends after line {}, in the middle of its data; copy it again",
                   name_, line_number_);
  }
  if (code != Z_OK && code != Z_STREAM_END) {
    kv::user_error("{}: cannot be read after line {}: {}; is it damaged?", name_, line_number_,
                   code == Z_ERRNO ? std::strerror(errno) : what);
  }
  return false;
}

bool TraceReader::read_line() {
  text_.clear();
  for (;;) {
    if (begin_ == end_ && !read_more()) break;
    const char* const from = buffer_.data() + begin_;
    const size_t left = end_ - begin_;
    const void* const newline = std::memchr(from, '\n', left);
    const size_t count =
        newline == nullptr ? left : static_cast<size_t>(static_cast<const char*>(newline) - from);
    text_.append(from, count);
    if (text_.size() > kMaxLine) {
      kv::user_error("{}, line {}: longer than {}; is it a trace, an object on each line?", name_,
                     line_number_ + 1, kv::human_bytes(static_cast<int64_t>(kMaxLine)));
    }
    begin_ += count;
    if (newline != nullptr) {
      ++begin_;
      ++line_number_;
      return true;
    }
  }
  if (text_.empty()) return false;
  ++line_number_;  // the last one has no newline
  return true;
}

bool TraceReader::next(Batch& batch) {
  batch.clear();
  while (batch.ids.size() < kBatchIds && batch.ends.size() < kBatchIds && read_line()) {
    if (text_.find_first_not_of(" \t\r") == text_.npos) continue;
    add_request(batch);
  }
  if (num_requests_ == 0) {
    kv::user_error("{}: there is no request in it; wanted a trace, a JSON object on each line",
                   name_);
  }
  return !batch.ends.empty();
}

double TraceReader::milliseconds() const {
  const double time = line_.timestamp;
  if (time < 0) return -1;
  if (unit_ == TimeUnit::kUnknown && time != std::floor(time)) {
    kv::user_error(
        "{}: \"timestamp\" is {}, wanted whole milliseconds; --time-unit s if these are seconds, "
        "or "
        "--time-unit ms",
        where(), time);
  }
  return unit_ == TimeUnit::kSeconds ? 1000 * time : time;
}

void TraceReader::add_request(Batch& batch) {
  const std::string at = where();
  parse_trace_line(text_, at, line_);
  if (line_.block_size > 0 && !given_) {
    if (num_requests_ > 0 && line_.block_size != block_size()) {
      kv::user_error("{}: \"block_size\" is {}, wanted {} as in the lines before", at,
                     line_.block_size, block_size());
    }
    block_size_ = static_cast<int>(line_.block_size);
  }
  const std::vector<uint64_t>& ids = line_.hash_ids;
  const int64_t tokens = line_.input_length, size = block_size();
  const int64_t full = tokens / size, all = (tokens + size - 1) / size;
  if (std::ssize(ids) < full || std::ssize(ids) > all) {
    kv::user_error(
        "{}: {} for {} input tokens in blocks of {}, wanted {}; is the block size "
        "another one? --block-size N",
        at, kv::count_of(std::ssize(ids), "hash id"), tokens, size, all);
  }
  refuse_twins(ids, at);
  batch.ids.insert(batch.ids.end(), ids.begin(), ids.begin() + full);
  batch.ends.push_back(batch.ids.size());
  batch.sizes.push_back(
      {.timestamp = milliseconds(), .input_tokens = tokens, .output_tokens = line_.output_length});
  if (std::ssize(ids) > full) batch.sizes.back().tail = ids.back();
  ++num_requests_;
  num_tokens_ += tokens;
}

}  // namespace replay
