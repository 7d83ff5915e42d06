// Any bytes as the body of a request: an ApiError whose body is JSON, or a request that keeps its
// promises. The first byte chooses between completion and chat.
#include <nlohmann/json.hpp>

#include "instruments/serve/api/request.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace serve;
  if (size == 0) return 0;
  const ApiRules rules{.model_name = "M", .by_priority = true};
  const std::string_view body = kv::fuzz::text(data + 1, size - 1);
  try {
    const ApiRequest request =
        data[0] == 'c' ? parse_completion(body, rules) : parse_chat(body, rules);
    kv::fuzz::require(request.num_choices() >= 1 && request.num_choices() <= rules.max_choices);
    kv::fuzz::require(request.chat ? !request.conversation.messages.empty()
                                   : !request.prompts.empty());
    kv::fuzz::require(request.max_tokens.value_or(1) >= 0 && request.num_logprobs <= 20);
    for (const std::string& stop : request.text.stops) kv::fuzz::require(!stop.empty());
    kv::validate(request.sampling);
  } catch (const ApiError& error) {
    kv::fuzz::require(error.status == 400 || error.status == 404);
    kv::fuzz::require(nlohmann::json::accept(body_of(error)));
  }
  return 0;
}
