#include "instruments/serve/api/answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace serve {
namespace {

/// The prompt, as the answer to a request with `echo` repeats it.
std::string text_of(const Prompt& prompt, const kv::Tokenizer& tokenizer) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  TextStream stream(tokenizer, {});
  std::string text;
  for (const int32_t id : std::get<std::vector<int32_t>>(prompt)) text += stream.push(id);
  return text + stream.finish();
}

}  // namespace

Answer::Answer(const ApiRequest& request, const AnswerHead& head,
               const std::vector<std::vector<int32_t>>& prompts, const kv::Tokenizer& tokenizer)
    : tokenizer_(&tokenizer), request_(request), head_(head) {
  for (size_t p = 0; p < prompts.size(); ++p) {
    const std::string echo = request.echo ? text_of(request.prompts[p], tokenizer) : "";
    num_prompt_ += static_cast<int>(prompts[p].size());
    for (int sample = 0; sample < request.n; ++sample) {
      choices_.push_back({.text = TextStream(tokenizer, request.text),
                          .delta = echo,
                          .logprobs = Logprobs(request.chat, request.num_logprobs),
                          .num_echoed = num_characters(echo)});
      choices_.back().num_prompt = static_cast<int>(prompts[p].size());
      if (request.return_token_ids) {
        choices_.back().prompt_ids = fmt::format("{}", fmt::join(prompts[p], ","));
      }
    }
  }
  num_open_ = num_choices();
  if (request.max_tokens != 0) return;
  for (Choice& choice : choices_) end(choice, "length");
}

void Answer::end(Choice& choice, const std::string& reason) {
  choice.finish = reason;
  --num_open_;
}

bool Answer::add(int index, const kv::NewToken& token, std::optional<kv::FinishReason> ended) {
  Choice& choice = choices_[index];
  ++num_completion_;
  ++choice.num_tokens;
  choice.has_news = true;
  if (request_.num_logprobs >= 0) {
    choice.logprobs.add(token, *tokenizer_, choice.num_echoed + choice.text.num_characters());
  }
  if (request_.return_token_ids) {
    choice.ids += (choice.ids.empty() ? "" : ",") + std::to_string(token.token);
  }
  const bool by_token = ended == kv::FinishReason::kStop;
  // A stop token is no part of the text, as a stop string is none.
  if (!by_token || request_.text.include_stop) choice.delta += choice.text.push(token.token);
  if (choice.text.stop()) {
    choice.stop_reason = json_text(*choice.text.stop());
    end(choice, "stop");
    return false;
  }
  if (!ended) return true;
  choice.delta += choice.text.finish();
  const bool named =
      std::ranges::find(request_.stop_token_ids, token.token) != request_.stop_token_ids.end();
  if (by_token && named) choice.stop_reason = std::to_string(token.token);
  end(choice, *ended == kv::FinishReason::kCancelled ? "abort" : name_of(*ended));
  return false;
}

/// Beginning of an answer, and of each of its chunks.
std::string Answer::head(const char* object) const {
  return fmt::format(R"({{"id":{},"object":"{}","created":{},"model":{},"choices":[)",
                     json_text(head_.id), request_.chat ? object : "text_completion", head_.created,
                     json_text(head_.model_name));
}

/// One event of a stream.
std::string Answer::event(const std::string& choices, const std::string& more) const {
  return "data: " + head("chat.completion.chunk") + choices + "]" + more + "}\n\n";
}

/// A choice: all of it, or what the stream has not had.
std::string Answer::part_of(int index, Choice& choice, bool whole) const {
  const std::string text = json_text(std::exchange(choice.delta, {}));
  const std::string content = !request_.chat ? "\"text\":" + text
                              : whole ? R"("message":{"role":"assistant","content":)" + text +
                                            R"(,"refusal":null,"tool_calls":[]})"
                                      : R"("delta":{"content":)" + text + "}";
  const bool ended = !choice.finish.empty();
  std::string part =
      fmt::format(R"({{"index":{},{},"logprobs":{},"finish_reason":{})", index, content,
                  request_.num_logprobs >= 0 ? choice.logprobs.take() : "null",
                  ended ? "\"" + choice.finish + "\"" : "null");
  if (ended || !request_.chat) part += ",\"stop_reason\":" + choice.stop_reason;
  if (request_.return_token_ids) {
    part += fmt::format(R"(,"token_ids":[{}])", std::exchange(choice.ids, {}));
    if (!choice.prompt_ids.empty() && !(request_.chat && !whole)) {
      part += fmt::format(R"(,"prompt_token_ids":[{}])", std::exchange(choice.prompt_ids, {}));
    }
  }
  return part + "}";
}

std::string Answer::take_chunks() {
  std::string events;
  // The role comes with the first result, of any choice: a client takes it for the first token.
  const bool first = request_.chat && !std::exchange(has_begun_, true);
  for (int i = 0; first && i < num_choices(); ++i) {
    const Choice& choice = choices_[static_cast<size_t>(i)];
    const std::string& ids = choice.prompt_ids;
    events += event(
        fmt::format(R"({{"index":{},"delta":{{"role":"assistant","content":""}},"logprobs":null,)"
                    R"("finish_reason":null}})",
                    i),
        (ids.empty() ? "" : fmt::format(R"(,"prompt_token_ids":[{}])", ids)) + usage_of(choice, 0));
  }
  const bool every_token = request_.num_logprobs >= 0 || request_.return_token_ids;
  for (int i = 0; i < num_choices(); ++i) {
    Choice& choice = choices_[i];
    const bool ends = !choice.finish.empty() && !choice.has_ended;
    const bool has_news = std::exchange(choice.has_news, false) && every_token;
    if (!ends && !has_news && choice.delta.empty()) continue;
    choice.has_ended |= ends;
    events += event(part_of(i, choice, false), usage_of(choice, choice.num_tokens));
  }
  if (!is_complete()) return events;
  if (request_.include_usage) events += event("", "," + usage(true));
  return events + "data: [DONE]\n\n";
}

std::string Answer::usage(bool in_stream) const {
  std::string details;
  if (head_.tell_cached || request_.return_token_ids) {
    details = fmt::format(R"(,"prompt_tokens_details":{{"cached_tokens":{}}})", num_cached_);
  } else if (!in_stream) {
    details = R"(,"prompt_tokens_details":null)";
  }
  return fmt::format(
      R"("usage":{{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{}{}}},"seed":{})",
      num_prompt_, num_prompt_ + num_completion_, num_completion_, details,
      static_cast<int64_t>(request_.sampling.seed));
}

/// What vLLM calls continuous usage stats: those of one choice, up to this chunk.
std::string Answer::usage_of(const Choice& choice, int num_tokens) const {
  if (!request_.continuous_usage) return {};
  return fmt::format(R"(,"usage":{{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{}}})",
                     choice.num_prompt, choice.num_prompt + num_tokens, num_tokens);
}

std::string Answer::body() {
  std::string choices;
  for (int i = 0; i < num_choices(); ++i) {
    choices += (i > 0 ? "," : "") + part_of(i, choices_[i], true);
  }
  std::string transfer;
  if (request_.remote_decode) {
    transfer = fmt::format(R"(,"kv_transfer_params":{{"do_remote_prefill":true,)"
                           R"("do_remote_decode":false,"remote_engine_id":"{}"}})",
                           head_.engine_id);
  }
  return head("chat.completion") + choices + "]," + usage(false) + transfer + "}";
}

}  // namespace serve
