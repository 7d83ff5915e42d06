#include "common/url.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "common/error.h"

namespace kv {
namespace {

constexpr std::string_view kAfterScheme = "://";

std::string small_letters(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return c < 0x80 ? static_cast<char>(std::tolower(c)) : static_cast<char>(c);
  });
  return text;
}

/// Empty if a % is not followed by two hexadecimal digits.
std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned char byte = 0;
    const char* const digits = text.data() + i + 1;
    if (i + 2 >= text.size()) return std::nullopt;
    const auto [stop, error] = std::from_chars(digits, digits + 2, byte, 16);
    if (error != std::errc() || stop != digits + 2) return std::nullopt;
    out += static_cast<char>(byte);
    i += 2;
  }
  return out;
}

bool is_scheme(std::string_view text) {
  return !text.empty() && std::isalpha(static_cast<unsigned char>(text[0])) != 0 &&
         std::ranges::all_of(text, [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
         });
}

/// An address's digits, colons and dots, and what may follow them: "%eth0".
bool is_ipv6(std::string_view text) {
  const std::string_view address = text.substr(0, text.find('%'));
  return std::ranges::count(address, ':') >= 2 &&
         address.find_first_not_of("0123456789abcdefABCDEF:.") == address.npos;
}

/// "HOST", "HOST:PORT", "[::1]:PORT". A colon with no port after it is one without a port.
bool take_host_and_port(std::string_view text, Url& url) {
  std::string_view host = text.substr(0, text.find(':')), rest = text.substr(host.size());
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == text.npos) return false;
    host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
  }
  std::optional<std::string> name = decoded(host);
  const bool bracketed = text.starts_with('[');
  if (!name && bracketed) name = std::string(host);  // [fe80::1%eth0], whose % is no escape
  if (!name || name->empty() || (bracketed && !is_ipv6(*name))) return false;
  if (!bracketed && name->find_first_of(":/[]@") != name->npos) return false;
  url.host = small_letters(*name);
  if (rest.empty() || rest == ":") return true;
  if (!rest.starts_with(':')) return false;
  rest.remove_prefix(1);
  int port = 0;
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), port);
  const bool digits = std::isdigit(static_cast<unsigned char>(rest[0])) != 0;
  if (!digits || error != std::errc() || stop != rest.data() + rest.size() || port > 65535) {
    return false;
  }
  url.port = port;
  return true;
}

}  // namespace

std::optional<Url> parse_url(std::string_view text) {
  const bool clean = std::ranges::none_of(
      text, [](unsigned char c) { return c <= 0x20 || c == 0x7F || c == '\\'; });
  const size_t colon = text.find(kAfterScheme);
  if (!clean || colon == text.npos || !is_scheme(text.substr(0, colon))) return std::nullopt;
  Url url;
  url.scheme = small_letters(std::string(text.substr(0, colon)));
  const std::string_view rest = text.substr(colon + kAfterScheme.size());
  const size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  const size_t at = rest.substr(0, end).rfind('@');  // the last one: a password may have a raw @
  url.path = std::string(rest.substr(end));
  if (url.path.find_first_of("?#") != url.path.npos) return std::nullopt;
  if (at == rest.npos) {
    return take_host_and_port(rest.substr(0, end), url) ? std::optional(url) : std::nullopt;
  }
  const std::string_view info = rest.substr(0, at);
  const size_t user_end = std::min(info.find(':'), info.size());
  const auto user = decoded(info.substr(0, user_end));
  const auto password = decoded(info.substr(std::min(user_end + 1, info.size())));
  if (!user || !password) return std::nullopt;
  url.user = *user;
  url.password = *password;
  return take_host_and_port(rest.substr(at + 1, end - at - 1), url) ? std::optional(url)
                                                                    : std::nullopt;
}

HttpServerUrl parse_http_server(const std::string& text, const std::string& option) {
  const std::optional<Url> url = parse_url(text);
  const std::string shown = fmt::format("{} {}", option, without_password(text));
  if (url && url->scheme == "https") {
    user_error("{}: this client speaks no TLS, wanted http://HOST:PORT", shown);
  }
  if (!url || url->scheme != "http" || url->port == 0) {
    user_error("{}: wanted http://HOST:PORT, as http://127.0.0.1:8000 or http://[::1]:8000", shown);
  }
  if (!url->user.empty() || !url->password.empty()) {
    user_error("{}: found a user or a password, wanted http://HOST:PORT", shown);
  }
  HttpServerUrl server{
      .host = url->host, .port = url->port.value_or(80), .path = url->path, .text = {}};
  while (server.path.ends_with('/')) server.path.pop_back();
  if (server.path.ends_with("/v1")) server.path.resize(server.path.size() - 3);
  while (server.path.ends_with('/')) server.path.pop_back();
  server.text = fmt::format("http://{}{}", host_and_port(server.host, server.port), server.path);
  // Its IPv6 address comes first on many machines, and servers listen on the other one.
  if (server.host == "localhost") server.host = "127.0.0.1";
  return server;
}

std::string host_and_port(const std::string& host, int port) {
  const bool ipv6 = host.find(':') != host.npos && !host.starts_with('[');
  return fmt::format("{}{}{}:{}", ipv6 ? "[" : "", host, ipv6 ? "]" : "", port);
}

std::string without_brackets(const std::string& host) {
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  return bracketed ? host.substr(1, host.size() - 2) : host;
}

std::string without_password(const std::string& text) {
  const size_t at = text.rfind('@'), scheme = text.find(kAfterScheme);
  if (at == text.npos) return text;
  return scheme < at ? text.substr(0, scheme + kAfterScheme.size()) + text.substr(at + 1)
                     : text.substr(at + 1);
}

}  // namespace kv
