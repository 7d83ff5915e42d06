#pragma once

// Errors as a client sees them.

#include <stdexcept>
#include <string>

namespace serve {

/// A request that is refused, or that failed: an HTTP status, and the field that is wrong, if one
/// is.
struct ApiError : std::runtime_error {
  ApiError(int http_status, const std::string& message, std::string field = {})
      : std::runtime_error(message), status(http_status), param(std::move(field)) {}
  int status;
  std::string param;
};

/// vLLM's body of an error: {"error":{"message":..,"type":..,"param":..,"code":400}}. The texts are
/// one line each and bounded, although a request's own words may be in them.
std::string body_of(const ApiError& error);

/// `text` as JSON, with its quotes. Bytes that are no UTF-8 become U+FFFD.
std::string json_text(const std::string& text);

}  // namespace serve
