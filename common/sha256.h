#pragma once

// SHA-256, and HMAC with it, of OpenSSL.

#include <array>
#include <cstddef>
#include <string_view>

namespace kv {

using Digest = std::array<std::byte, 32>;

/// False in a browser, which has no OpenSSL: both functions are made of four XXH64 there.
bool has_sha256();
/// Throws UserError if this OpenSSL lacks it.
Digest sha256(std::string_view bytes);
Digest hmac_sha256(std::string_view bytes, std::string_view secret);

}  // namespace kv
