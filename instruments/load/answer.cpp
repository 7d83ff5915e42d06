#include "instruments/load/answer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/json.h"
#include "common/table.h"

namespace load {
namespace {

using Json = nlohmann::json;

/// The value at a path of keys; null if there is none.
const Json& at(const Json& json, std::initializer_list<const char*> keys) {
  static const Json kNull;
  const Json* value = &json;
  for (const char* key : keys) {
    const auto found = value->is_object() ? value->find(key) : value->end();
    if (!value->is_object() || found == value->end()) return kNull;
    value = &*found;
  }
  return *value;
}

std::string text_at(const Json& json, std::initializer_list<const char*> keys) {
  const Json& value = at(json, keys);
  return value.is_string() ? value.get<std::string>() : std::string();
}

int64_t count_at(const Json& json, std::initializer_list<const char*> keys) {
  const Json& value = at(json, keys);
  return kv::integer_in(value, 0, INT64_MAX).value_or(0);
}

/// All text in a field of a delta: an answer or its parts, a thought, a refusal, calls of tools. A
/// user waits for each of them, whatever a server calls it.
std::string text_in(const std::string& key, const Json& value, int depth = 8) {
  std::string all;
  if (key == "role" || key == "type" || key == "id" || depth == 0) return all;
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_structured()) return all;
  for (const auto& [name, one] : value.items()) all += text_in(name, one, depth - 1);
  return all;
}

/// Tokens and log probabilities of a chunk, in a form that does not depend on how the stream was
/// cut into chunks. Chat lists objects, completions two arrays.
std::string logprobs_of(const Json& choice) {
  std::string all;
  const Json& content = at(choice, {"logprobs", "content"});
  for (const Json& token : content)
    all += token.dump(-1, ' ', false, Json::error_handler_t::replace);
  const Json &tokens = at(choice, {"logprobs", "tokens"}),
             &values = at(choice, {"logprobs", "token_logprobs"});
  for (size_t i = 0; tokens.is_array() && values.is_array() && i < tokens.size(); ++i) {
    all += tokens[i].dump(-1, ' ', false, Json::error_handler_t::replace);
    if (i < values.size()) all += values[i].dump() + ";";
  }
  return all;
}

}  // namespace

std::runtime_error too_long(size_t max_bytes) {
  return std::runtime_error("answer over " + kv::human_bytes(static_cast<int64_t>(max_bytes)));
}

void AnswerReader::take(std::string_view bytes, Clock::time_point now) {
  num_bytes_ += bytes.size();
  if (num_bytes_ > max_bytes_) throw too_long(max_bytes_);
  for (const char c : bytes) {
    if (c == '\n') {
      end_line(now);
      line_.clear();
    } else if (c != '\r') {
      line_ += c;
    }
  }
}

void AnswerReader::end_line(Clock::time_point now) {
  if (line_.empty()) {
    end_event(now);
    data_.clear();
  } else if (line_.starts_with("data:")) {
    data_ += (data_.empty() ? "" : "\n") + line_.substr(line_.starts_with("data: ") ? 6 : 5);
  } else if (line_.starts_with('{')) {
    fail("no stream of events", error_message_of(line_));
  }
}

void AnswerReader::end_event(Clock::time_point now) {
  if (data_.empty() || done_) return;
  done_ = data_.starts_with("[DONE]");
  if (done_) return;
  const Json event = Json::parse(data_, nullptr, false);
  if (!event.is_object()) return fail("broken stream", "an event is no JSON object: " + data_);
  const std::string kind = text_at(event, {"object"}) + text_at(event, {"type"});
  if (kind == "error" || !at(event, {"error"}).is_null()) {
    return fail("error in a stream", error_message_of(data_));
  }
  bool has_text = false;
  for (const Json& choice : at(event, {"choices"})) {
    Choice& mine = choices_[count_at(choice, {"index"})];
    const size_t before = mine.text.size() + mine.beside.size();
    mine.text += text_at(choice, {"text"});
    for (const auto& [key, value] : at(choice, {"delta"}).items()) {
      (key == "content" ? mine.text : mine.beside) += text_in(key, value);
    }
    mine.logprobs += logprobs_of(choice);
    mine.finish_reason += text_at(choice, {"finish_reason"});
    has_text |= mine.text.size() + mine.beside.size() > before;
  }
  if (has_text) {
    if (any_text_) outcome_.gaps.push_back(std::chrono::duration<double>(now - last_).count());
    if (!any_text_) outcome_.first_token = since_sent(now);
    any_text_ = true;
    last_ = now;
  }
  if (const Json& usage = at(event, {"usage"}); usage.is_object()) {
    outcome_.prompt_tokens = count_at(usage, {"prompt_tokens"});
    outcome_.generated_tokens = count_at(usage, {"completion_tokens"});
    if (at(usage, {"prompt_tokens_details"}).is_object()) {
      outcome_.cached_tokens = count_at(usage, {"prompt_tokens_details", "cached_tokens"});
    }
  }
}

void AnswerReader::fail(const std::string& kind, const std::string& message) {
  if (!outcome_.error.empty()) return;  // the first error says the most
  outcome_.error = kind;
  outcome_.error_message = message.substr(0, 200);
}

void AnswerReader::finish(Outcome& outcome, Clock::time_point now) {
  end_line(now);
  const auto has_end = [](const auto& one) { return !one.second.finish_reason.empty(); };
  if (!done_ && (choices_.empty() || !std::ranges::all_of(choices_, has_end))) {
    fail("stream without its end", "the answer stopped before data: [DONE]");
  }
  outcome_.request = outcome.request;
  outcome = outcome_;
  outcome.total = since_sent(now);
  if (!any_text_) outcome.first_token = outcome.total;
  for (const auto& [index, choice] : choices_) {
    outcome.answer +=
        choice.beside + choice.text + '\n' + choice.finish_reason + '\n' + choice.logprobs + '\n';
  }
  if (!choices_.empty()) outcome.text = choices_.begin()->second.text;
}

std::string error_message_of(const std::string& body) {
  const Json json = Json::parse(body, nullptr, false);
  const std::string text = text_at(json, {"error", "message"}) + text_at(json, {"error"}) +
                           text_at(json, {"message"}) + text_at(json, {"detail"});
  return text.empty() ? body.substr(0, 200) : text;
}

}  // namespace load
