// Logits of a list of token ids, as a safetensors file: what anyone needs to compare this model
// with another implementation.
//
//   ./course logits --model DIR --token-ids 1,2,3 --out FILE.safetensors

#include <charconv>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "lessons/01_no_cache/engine.h"
#include "programs/generate.h"
#include "qwen3/safetensors.h"

namespace {

/// "1,2,3", spaces allowed. Whether an id is in the vocabulary is the model's question.
std::vector<int32_t> parse_ids(std::string_view text) {
  std::vector<int32_t> ids;
  while (true) {
    const size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    while (!item.empty() && item.front() == ' ') item.remove_prefix(1);
    while (!item.empty() && item.back() == ' ') item.remove_suffix(1);
    int32_t id = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), id);
    if (error != std::errc() || end != item.data() + item.size()) {
      kv::user_error("--token-ids: item {} is '{}', wanted a token id; write them as 1,2,3",
                     ids.size() + 1, item);
    }
    ids.push_back(id);
    if (comma == std::string_view::npos) return ids;
    text.remove_prefix(comma + 1);
  }
}

void run(const kv::GenerateOptions& options, const std::string& id_list, const std::string& out) {
  const std::vector<int32_t> ids = parse_ids(id_list);
  kv::Model model = kv::load_model(options);
  const kv::ModelConfig& config = model.config();
  const auto num_tokens = static_cast<int64_t>(ids.size());
  if (num_tokens > config.max_position_embeddings) {
    kv::user_error("--token-ids: found {} ids, this model has {} positions; use fewer", num_tokens,
                   config.max_position_embeddings);
  }

  lesson01::CausalAttention attention(config);
  kv::PassRows rows;
  rows.add(0, ids, 0);
  rows.logit_rows.resize(ids.size());  // all rows
  std::iota(rows.logit_rows.begin(), rows.logit_rows.end(), 0);
  const std::span<const float> logits = model.forward(rows, attention);
  kv::write_safetensors(
      out,
      {{"logits", "F32", {num_tokens, config.vocab_size}, logits.data(), logits.size_bytes()}});
  const kv::Console console("");
  console.print("{}: logits, F32 [{}, {}], from {}\n", out, num_tokens, config.vocab_size,
                kv::describe(model.device()));
}

}  // namespace

int main(int argc, char** argv) {
  kv::CommandLine command(
      "Writes the logits of a list of token ids: tensor `logits`, F32 [tokens, vocab].");
  kv::GenerateOptions options;
  std::string ids;
  std::string out;
  kv::add_model_options(command, options);
  command.value("--token-ids IDS", ids, "token ids separated by commas: 1,2,3").required();
  command.value("--out FILE", out, "the .safetensors file to write").required();
  return kv::run_main(command, argc, argv, [&] { run(options, ids, out); });
}
