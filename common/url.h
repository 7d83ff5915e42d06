#pragma once

// Addresses as people write them: "http://HOST:PORT/PATH", "redis://USER:PASSWORD@HOST:PORT/0",
// "tcp://[::1]:5557". RFC 3986's parts, as far as a server's address has them.

#include <optional>
#include <string>
#include <string_view>

namespace kv {

struct Url {
  std::string scheme;          // in small letters
  std::string user, password;  // decoded: %40 is @
  std::string host;            // decoded, in small letters; of an IPv6 address without brackets
  std::optional<int> port;     // 0 to 65535
  std::string path;            // as it is written, from the slash on
};

/// Empty for text that is no such address: no scheme, no host, a port that none can be, a space or
/// a control character, an IPv6 address without brackets, a query.
std::optional<Url> parse_url(std::string_view text);

/// A server for a client of HTTP, which speaks no TLS.
struct HttpServerUrl {
  std::string host;
  int port = 80;
  std::string path;  // before /v1; no slash at its end
  std::string text;  // as messages show it
};
/// "http://HOST:PORT/PATH"; the path may end in /v1, as clients' base URLs do. Throws UserError,
/// which begins with `option`, for anything else; https is refused by name.
HttpServerUrl parse_http_server(const std::string& text, const std::string& option);

/// "HOST:PORT", with an IPv6 address in brackets: its own colons would hide where the port begins.
std::string host_and_port(const std::string& host, int port);

/// "[::1]" as programs that bind or connect want it.
std::string without_brackets(const std::string& host);

/// `text` without the user and the password, for messages.
std::string without_password(const std::string& text);

}  // namespace kv
