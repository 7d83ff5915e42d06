#pragma once

// Chunk extensions, as "5;name=value", mean nothing to a server that does not know them, and must
// be passed over (RFC 9112, section 7.1.1). libevent refuses them, so they are taken out before it
// reads.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct bufferevent;

namespace serve {

/// One connection's bytes, as they come. It knows of HTTP what says where a chunk's size is,
/// and passes on whatever it does not understand.
class ChunkExtensions {
 public:
  /// The bytes without extensions.
  std::string without(std::string_view bytes);

 private:
  enum class At { kHead, kBody, kSize, kChunk, kTrailer, kUnknown };
  void end_line();
  void begin_body();

  At at_ = At::kHead;
  std::string line_;  // of the head or the trailer, or a chunk's size; without its end
  bool has_first_line_ = false, may_have_body_ = false, chunked_ = false, in_extension_ = false;
  uint64_t left_ = 0;  // bytes of the body, or of the chunk and its end
};

/// From now on, what comes on this connection is read without extensions. The result must live as
/// long as the connection.
std::shared_ptr<void> drop_chunk_extensions(bufferevent* socket);

}  // namespace serve
