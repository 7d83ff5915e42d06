#include "instruments/serve/http/chunks.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "instruments/serve/http/framing.h"

namespace serve {
namespace {

constexpr size_t kMaxLine = size_t{64} << 10;

uint64_t number_of(std::string_view text, int base) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, base);
  return number;
}

}  // namespace

void ChunkExtensions::begin_body() {
  at_ = !may_have_body_ ? At::kHead : chunked_ ? At::kSize : left_ > 0 ? At::kBody : At::kHead;
  if (at_ == At::kHead) left_ = 0;
  has_first_line_ = may_have_body_ = chunked_ = false;
}

/// A line of the head or the trailer, or a chunk's size, is complete.
void ChunkExtensions::end_line() {
  const std::string line = std::exchange(line_, {});
  if (at_ == At::kSize) {
    in_extension_ = false;
    const uint64_t size = number_of(line, 16);
    at_ = size == 0 ? At::kTrailer : At::kChunk;
    left_ = size == 0 ? 0 : size + 2;  // and its line's end
    return;
  }
  if (line.empty()) {
    if (at_ == At::kTrailer)
      at_ = At::kHead;
    else if (has_first_line_)
      begin_body();
    return;
  }
  if (at_ == At::kTrailer) return;
  if (!std::exchange(has_first_line_, true)) {
    may_have_body_ = line.starts_with("POST ") || line.starts_with("PUT ");
    return;
  }
  const size_t colon = std::min(line.find(':'), line.size());
  const std::string_view name = std::string_view(line).substr(0, colon);
  const std::string_view value =
      trimmed(std::string_view(line).substr(std::min(colon + 1, line.size())));
  if (same_ignoring_case(name, "Transfer-Encoding"))
    chunked_ = same_ignoring_case(value, "chunked");
  if (same_ignoring_case(name, "Content-Length")) left_ = number_of(value, 10);
}

std::string ChunkExtensions::without(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    if (at_ == At::kUnknown) return out.append(bytes);
    if (at_ == At::kBody || at_ == At::kChunk) {
      const auto count = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
      out.append(bytes.substr(0, count));
      bytes.remove_prefix(count);
      left_ -= count;
      if (left_ == 0) at_ = at_ == At::kBody ? At::kHead : At::kSize;
      continue;
    }
    const char c = bytes.front();
    bytes.remove_prefix(1);
    if (at_ == At::kSize && (c == ';' || (in_extension_ && c != '\n'))) {
      in_extension_ = true;
      continue;
    }
    if (at_ == At::kSize && in_extension_) out += '\r';
    out += c;
    if (c == '\n') {
      if (line_.ends_with('\r')) line_.pop_back();
      end_line();
    } else {
      line_ += c;
      if (line_.size() > kMaxLine) at_ = At::kUnknown;
    }
  }
  return out;
}

namespace {

struct Filtered {
  ChunkExtensions filter;
  bool changes = false;  // the buffer is being changed here
};

void on_input(evbuffer* input, const evbuffer_cb_info* change, void* given) {
  auto& filtered = *static_cast<Filtered*>(given);
  if (filtered.changes || change->n_added == 0) return;
  std::string all(evbuffer_get_length(input), '\0');
  evbuffer_copyout(input, all.data(), all.size());
  const std::string came = all.substr(all.size() - change->n_added);
  const std::string left = filtered.filter.without(came);
  if (left == came) return;
  filtered.changes = true;
  all.replace(all.size() - came.size(), came.size(), left);
  evbuffer_drain(input, evbuffer_get_length(input));
  evbuffer_add(input, all.data(), all.size());
  filtered.changes = false;
}

}  // namespace

std::shared_ptr<void> drop_chunk_extensions(bufferevent* socket) {
  auto filtered = std::make_shared<Filtered>();
  evbuffer_add_cb(bufferevent_get_input(socket), &on_input, filtered.get());
  return filtered;
}

}  // namespace serve
