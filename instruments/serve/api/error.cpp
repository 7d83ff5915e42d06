#include "instruments/serve/api/error.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "common/utf8.h"

namespace serve {
namespace {

const char* type_of(int status) {
  static const std::map<int, const char*> kTypes = {{401, "AuthenticationError"},
                                                    {404, "NotFoundError"},
                                                    {500, "InternalServerError"},
                                                    {502, "InternalServerError"},
                                                    {503, "ServiceUnavailableError"}};
  const auto found = kTypes.find(status);
  return found == kTypes.end() ? "BadRequestError" : found->second;
}

}  // namespace

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string body_of(const ApiError& error) {
  return fmt::format(R"({{"error":{{"message":{},"type":"{}","param":{},"code":{}}}}})",
                     json_text(kv::one_line(error.what())), type_of(error.status),
                     error.param.empty() ? "null" : json_text(kv::one_line(error.param)),
                     error.status);
}

}  // namespace serve
