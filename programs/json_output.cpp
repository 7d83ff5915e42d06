#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "common/console.h"
#include "common/error.h"
#include "common/table.h"
#include "programs/report.h"

namespace kv {

nlohmann::json json_of(const EngineCounters& counters) {
  nlohmann::json json{{"passes", counters.passes},
                      {"kv_rows_computed", counters.kv_rows_computed},
                      {"kv_bytes_reserved", counters.kv_bytes_reserved},
                      {"kv_bytes_used", counters.kv_bytes_used},
                      {"kv_bytes_copied", counters.kv_bytes_copied},
                      {"seconds", counters.seconds}};
  json.update(counters.by_name);
  return json;
}

std::string text_of(std::span<const int32_t> tokens, const Tokenizer& tokenizer) {
  StreamingDecoder decoder(tokenizer);
  std::string text;
  for (const int32_t id : tokens) text += decoder.push(id);
  return text + decoder.finish();
}

nlohmann::json json_of(const GenerateResult& result, const Tokenizer& tokenizer,
                       std::span<const std::string> prompts) {
  nlohmann::json document = json_of(result.counters);
  document["completions"] = nlohmann::json::array();
  for (size_t i = 0; i < result.completions.size(); ++i) {
    const Completion& completion = result.completions[i];
    document["completions"].push_back({{"prompt", prompts[i]},
                                       {"text", text_of(completion.tokens, tokenizer)},
                                       {"token_ids", completion.tokens},
                                       {"finish", name_of(completion.finish)},
                                       {"logits_xxh64", hex64(completion.logits_xxh64)}});
  }
  document["tokens"] = num_generated_tokens(result);
  document["logits_xxh64"] = hex64(combined_digest(result.completions));
  document["rows_per_pass"] = nlohmann::json::array();
  document["seconds_per_pass"] = nlohmann::json::array();
  for (const PassCost& pass : result.passes) {
    document["rows_per_pass"].push_back(pass.rows);
    document["seconds_per_pass"].push_back(pass.seconds);
  }
  return document;
}

namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

/// Opens, writes and closes; throws UserError that names `file` for any failure.
void write_all(const std::string& path, const std::string& text, const std::string& file) {
  const auto fail = [&] {
    user_error("cannot write {}: {}; name a file in a folder you can write to, or - for stdout",
               file, std::strerror(errno));
  };
  std::unique_ptr<std::FILE, CloseFile> out(std::fopen(path.c_str(), "wb"));
  if (!out) fail();
  if (std::fwrite(text.data(), 1, text.size(), out.get()) != text.size()) fail();
  if (std::fclose(out.release()) != 0) fail();
}

}  // namespace

void write_text(const std::string& file, const std::string& text) {
  if (file == "-") {
    const bool ok =
        std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    if (!ok) standard_output_failed();
    return;
  }
  std::error_code ignored;
  const auto status = std::filesystem::status(file, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    write_all(file, text, file);  // a device or a pipe
    return;
  }
  const std::string beside = file + ".part";
  try {
    write_all(beside, text, file);
    std::filesystem::rename(beside, file);
  } catch (const std::filesystem::filesystem_error& error) {
    std::filesystem::remove(beside, ignored);
    user_error("cannot write {}: {}", file, error.code().message());
  } catch (...) {
    std::filesystem::remove(beside, ignored);
    throw;
  }
}

void write_json(const std::string& file, const nlohmann::json& document) {
  if (file.empty()) return;
  // A prompt may hold bytes that are no UTF-8; JSON has no room for them.
  write_text(file, document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void refuse_same_file(const char* option, const std::string& written, const std::string& other) {
  if (written.empty() || written == "-") return;
  std::error_code none;  // a file that is not there yet has its name alone
  if (written == other || std::filesystem::equivalent(written, other, none)) {
    user_error("{} {}: would replace {}, which this command uses; name another file", option,
               written, other);
  }
}

}  // namespace kv
