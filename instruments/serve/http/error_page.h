#pragma once

// libevent answers a request that it cannot read by itself, with a page in HTML: a body that is too
// large, a head that is no HTTP. A client of the API wants JSON there, too.

#include <string>
#include <string_view>

struct bufferevent;

namespace serve {

/// The reply of libevent's own page as one of the API, with its status; empty for any other reply.
std::string api_reply_for(std::string_view reply);

/// From now on, pages that libevent writes to this connection leave as api_reply_for() has them.
void replace_error_pages(bufferevent* socket);

}  // namespace serve
