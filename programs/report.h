#pragma once

// The report of a program that generated text, for people and as JSON.

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "qwen3/engine.h"
#include "qwen3/tokenizer.h"

namespace kv {

/// One line for each pass, or for each of at most `max_lines` runs of passes: rows, mean time, a
/// bar.
std::string passes_chart(std::span<const PassCost> passes, int max_lines);

/// The counters' lines that every program ends with.
std::string counters_text(const EngineCounters& counters, int64_t generated_tokens);

/// Rows run if every pass runs every token again: a prompt of p tokens and g generated ones take g
/// passes of p, p + 1, ... rows. From a prompt of one token that is g (g + 1) / 2.
int64_t rows_without_cache(std::span<const Request> requests, const GenerateResult& result);

/// Returns the text that StreamPrinter shows for these tokens: special ones have no text, and an id
/// that only the model has is U+FFFD.
std::string text_of(std::span<const int32_t> tokens, const Tokenizer& tokenizer);

/// {passes, kv_rows_computed, kv_bytes_reserved, ...} and each completion with its text.
nlohmann::json json_of(const EngineCounters& counters);
nlohmann::json json_of(const GenerateResult& result, const Tokenizer& tokenizer,
                       std::span<const std::string> prompts);

/// Writes to a file, or to standard output for "-". A regular file is replaced only when all of it
/// is written. Throws UserError.
void write_text(const std::string& file, const std::string& text);

/// Writes the document and a newline in the same way; does nothing for an empty name.
void write_json(const std::string& file, const nlohmann::json& document);

/// Throws UserError if the file that `option` writes is one that the program reads or writes
/// anyway: the same name, or another name or a link of the same file. An empty name is no file.
void refuse_same_file(const char* option, const std::string& written, const std::string& other);

}  // namespace kv
