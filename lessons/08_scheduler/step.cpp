#include "step.h"

#include "common/error.h"
#include "common/table.h"

namespace lesson08 {

void check(const SchedulerOptions& options) {
  if (options.max_tokens_per_pass < 1 || options.max_running < 1 || options.max_chunk < 0) {
    kv::user_error("token budget {}, running requests {}, chunk {}: wanted at least 1, 1, and 0",
                   options.max_tokens_per_pass, options.max_running, options.max_chunk);
  }
  if (!options.chunked_prefill && options.max_chunk > 0) {
    kv::user_error("chunks of {}, and no chunked prefill: wanted one or the other",
                   kv::count_of(options.max_chunk, "token"));
  }
}

const ServeOptions& checked(const PagedOptions& options, const ServeOptions& serve) {
  lesson03::check(options);
  check(serve.scheduler);
  if (serve.pad_decodes_to < 1) {
    kv::user_error("pad_decodes_to {}: wanted at least 1", serve.pad_decodes_to);
  }
  return serve;
}

void add_rows(const ScheduledRequest& request, const Chunk& chunk, kv::PassRows& rows) {
  const size_t end = request.num_computed + chunk.num_tokens;
  rows.add(chunk.id, std::span(request.tokens).first(end), request.num_computed,
           end == request.tokens.size());
}

void pad_decodes(kv::PassRows& rows, int multiple) {
  const bool decodes_only = rows.num_rows() == static_cast<int>(rows.requests.size());
  while (decodes_only && rows.num_rows() % multiple != 0) rows.add_padding();
}

}  // namespace lesson08
