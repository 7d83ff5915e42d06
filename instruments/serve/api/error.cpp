#include "instruments/serve/api/error.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace serve {
namespace {

const char* type_of(int status) {
  switch (status) {
    case 401:
      return "AuthenticationError";
    case 404:
      return "NotFoundError";
    case 500:
      return "InternalServerError";
    case 501:
      return "NotImplementedError";
    case 503:
      return "ServiceUnavailableError";
    default:
      return "BadRequestError";
  }
}

}  // namespace

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string body_of(const ApiError& error) {
  return fmt::format(R"({{"error":{{"message":{},"type":"{}","param":{},"code":{}}}}})",
                     json_text(error.what()), type_of(error.status),
                     error.param.empty() ? "null" : json_text(error.param), error.status);
}

}  // namespace serve
