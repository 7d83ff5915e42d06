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

using Headers = std::vector<std::pair<std::string, std::string>>;  // as they came

/// Why the end of the body is in doubt; empty if it is not.
std::string framing_error(const Headers& headers);

}  // namespace serve
