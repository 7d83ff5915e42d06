#pragma once

// Where a request ends must be beyond doubt: a proxy that reads its headers in another way than
// this server would let one client's bytes begin another client's request.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace serve {

/// ASCII letters match whatever their case.
bool same_ignoring_case(std::string_view a, std::string_view b);

/// Without the spaces and tabs around it.
std::string_view trimmed(std::string_view text);

/// Whether a Content-Type, with or without parameters, is this one.
bool is_media_type(std::string_view header, std::string_view type);

/// The key of "Bearer KEY"; empty for another scheme. The scheme's case does not count (RFC 9110,
/// section 11.1), nor does the number of spaces after it.
std::string bearer_of(std::string_view authorization);

using Headers = std::vector<std::pair<std::string, std::string>>;  // as they came

/// Why the end of the body is in doubt; empty if it is not.
std::string framing_error(const Headers& headers);

}  // namespace serve
