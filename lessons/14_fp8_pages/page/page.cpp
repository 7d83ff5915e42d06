#include "page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <stdexcept>

#include "common/table.h"
#include "e4m3.h"
#include "engine.h"
#include "viz/ui.h"
#include "write_kv_fp8.h"

namespace lesson14 {
namespace {

constexpr const char* kGives[] = {"a scale for each token", "one scale, which grows", "scale 1"};
constexpr const char* kWhy[] = {"with which its largest number fits", "as all of its block",
                                "as all tokens"};

/// Qwen3-0.6B, as far as its cache goes.
kv::ModelConfig large_model() {
  kv::ModelConfig config;
  config.num_layers = 28;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  return config;
}

/// The numbers of these words; none if one of them is no number.
std::vector<float> numbers_of(const std::vector<std::string>& words) {
  std::vector<float> numbers;
  for (const std::string& word : words) {
    char* end = nullptr;
    numbers.push_back(std::strtof(word.c_str(), &end));
    if (end == word.c_str() || *end != '\0' || !std::isfinite(numbers.back())) return {};
  }
  return numbers;
}

float largest_of(const std::vector<float>& numbers) {
  float largest = 0;
  for (const float x : numbers) largest = std::max(largest, std::fabs(x));
  return largest;
}

void encode_head(const std::vector<float>& from, int exponent, ShownToken& token) {
  std::vector<uint8_t> codes;
  for (const float x : from) codes.push_back(encode(x, exponent));
  token.changed.assign(codes.size(), false);
  for (size_t i = 0; i < token.codes.size(); ++i) token.changed[i] = codes[i] != token.codes[i];
  token.codes = std::move(codes);
  token.exponent = exponent;
}

}  // namespace

float ShownToken::back(size_t i) const { return decode(codes[i], exponent); }

bool ShownToken::is_lost(size_t i) const {
  return numbers[i] != 0 && (back(i) == 0 || std::fabs(numbers[i]) > 1.1f * std::fabs(back(i)));
}

int64_t Shown::tokens_in(bool fp8) const {
  const int64_t bytes =
      block_bytes(large_model(), 16, fp8 ? kv::KvFormat::kFp8 : kv::KvFormat::kActivations);
  return (int64_t{memory_gib} << 30) / bytes * 16;
}

Fp8Page::Fp8Page()
    : Page({.lesson = "14",
            .title = "Half the bytes",
            .summary = "Each number becomes eight bits, and each token's head has a scale.",
            .opening = {"write 0.3 -0.13 0.02 0.4 0.05 0.01", "write 3 -1.3 0.2 40 300 0.01"},
            .tall = 600}) {
  const viz::Argument numbers = viz::words("NUMBERS", 1, static_cast<int64_t>(kNumbers))
                                    .field("numbers", "3 -1.3 0.2 40 300 0.01");
  declare(
      {{"write",
        {numbers},
        "a token whose head is NUMBERS: find its scale, and write its codes",
        [this](auto& w) { return write(numbers_of(viz::texts(w, 0))); },
        [this](auto& w) -> std::string {
          if (shown_.tokens.size() == kTokens) return "the block is full";
          return numbers_of(viz::texts(w, 0)).empty() ? "a word is no number" : "";
        }},
       viz::Verb{
           "rule",
           {viz::choice("token|block|one")},
           "the block's tokens again: with a scale for each, or one for all, or scale 1",
           [this](auto& w) { return write_all(shown_.tokens, static_cast<Rule>(w[0].number)); }}
           .holding_if([this](auto& w) { return shown_.rule == static_cast<Rule>(w[0].number); }),
       viz::Verb{"memory",
                 {viz::number("GIB", 1, 1024)},
                 "GIB of memory for the KV cache of Qwen3-0.6B",
                 [this](auto& w) {
                   shown_.memory_gib = w[0].number;
                   return fmt::format("{} GiB hold {} tokens in bf16, {} in FP8", w[0].number,
                                      kv::with_commas(shown_.tokens_in(false)),
                                      kv::with_commas(shown_.tokens_in(true)));
                 }}
           .holding_if([this](auto& w) { return shown_.memory_gib == w[0].number; }),
       {"forget", {}, "an empty block", [this](auto&) { return write_all({}, shown_.rule); }}});
  reset();
}

std::string Fp8Page::write_all(std::vector<ShownToken> tokens, Rule rule) {
  shown_.tokens.clear();
  shown_.rule = rule;
  shown_.reason = fmt::format("An empty block, with {}.", kGives[static_cast<int>(rule)]);
  for (const ShownToken& token : tokens) write(token.numbers);
  return shown_.reason;
}

std::string Fp8Page::write(const std::vector<float>& numbers) {
  ShownToken token{.numbers = numbers};
  int exponent = shown_.rule == Rule::kOne ? 0 : scale_exponent(largest_of(numbers));
  int64_t rewritten = 0;
  if (shown_.rule == Rule::kBlock && !shown_.tokens.empty()) {
    exponent = std::max(exponent, shown_.tokens.back().exponent);
  }
  for (ShownToken& old : shown_.tokens) {
    old.changed.assign(old.codes.size(), false);
    if (shown_.rule != Rule::kBlock || old.exponent == exponent) continue;
    std::vector<float> kept;  // the numbers are gone: the codes are all there is
    for (size_t i = 0; i < old.codes.size(); ++i) kept.push_back(old.back(i));
    encode_head(kept, exponent, old);
    rewritten += std::ranges::count(old.changed, true);
  }
  encode_head(numbers, exponent, token);
  shown_.tokens.push_back(std::move(token));
  return shown_.reason =
             fmt::format("Token {} has the scale 2^{}, {}. {}", shown_.tokens.size() - 1, exponent,
                         kWhy[static_cast<int>(shown_.rule)],
                         rewritten > 0 ? kv::count_of(rewritten, "earlier code") + " had to change."
                                       : "No other token has changed.");
}

std::vector<viz::Counter> Fp8Page::counters() const {
  int64_t changed = 0, zeros = 0, too_large = 0, exponent = 0;
  double error = 0;
  for (const ShownToken& token : shown_.tokens) {
    exponent = token.exponent;
    changed += std::ranges::count(token.changed, true);
    for (size_t i = 0; i < token.codes.size(); ++i) {
      if (token.numbers[i] == 0) continue;
      zeros += token.back(i) == 0;
      too_large += token.is_lost(i) && token.back(i) != 0;
      error = std::max(error, std::fabs(double{token.back(i)} / double{token.numbers[i]} - 1));
    }
  }
  return {{"tokens", std::ssize(shown_.tokens), "tokens", "Tokens in the block."},
          {"exponent", exponent, "last scale", "The scale of the last token's head.",
           fmt::format("2^{}", exponent)},
          {"changed", changed, "codes rewritten",
           "Codes of earlier tokens that the last command has changed."},
          {"zeros", zeros, "became zero", "Numbers too small for the scale of their head."},
          {"too_large", too_large, "too large", "Numbers that became the largest one."},
          {"error_permille", std::llround(1000 * error)},
          {"memory", shown_.memory_gib},
          {"bf16_tokens", shown_.tokens_in(false)},
          {"fp8_tokens", shown_.tokens_in(true), "fit in FP8",
           "Tokens of Qwen3-0.6B that the memory holds in FP8."}};
}

/// With a scale for each token, the codes are those that the lesson's kernel writes.
void Fp8Page::check_invariants() const {
  if (shown_.rule != Rule::kToken) return;
  for (size_t t = 0; t < shown_.tokens.size(); ++t) {
    const ShownToken& token = shown_.tokens[t];
    const auto size = static_cast<int>(token.numbers.size());
    std::vector<uint8_t> k(token.numbers.size()), v(k), scales(16);
    const int64_t slot = 0;
    write_kv_fp8_cpu({.k = token.numbers.data(),
                      .v = token.numbers.data(),
                      .slot_mapping = &slot,
                      .num_rows = 1,
                      .cache = {{.k = k.data(),
                                 .v = v.data(),
                                 .num_blocks = 1,
                                 .block_size = 1,
                                 .num_kv_heads = 1,
                                 .head_dim = size},
                                scales.data()}});
    if (k != token.codes || v != token.codes || exponent_of(scales[0]) != token.exponent) {
      throw std::logic_error("a token's codes are not those that its head alone gives");
    }
  }
}

/// Small numbers, then large ones, and the same by the next rule.
std::vector<viz::Button> Fp8Page::actions() const {
  const size_t written = shown_.tokens.size();
  const auto turn = [&](Rule after) { return written > 2 && shown_.rule == after; };
  return {{"write small", "Small", "write 0.3 -0.13 0.02 0.4 0.05 0.01", "", 'S', written == 0},
          {"write large", "Large", "write 300 -13 0.2 4000 55 0.01", "", 'L',
           written == 1 || written == 2},
          {"rule token", "Per token", "rule token", "", 'K', turn(Rule::kOne)},
          {"rule block", "Per block", "rule block", "", 'B', turn(Rule::kToken)},
          {"rule one", "No scale", "rule one", "", 'N', turn(Rule::kBlock)}};
}

void Fp8Page::draw(viz::Ui& ui) {
  form(ui, {"write", "Write a token", "write"});
  buttons(ui, {{"forget", "Forget", "forget"}});
  choice(ui, "GiB of memory", viz::one_of("memory", {8, 24, 80}));
}

std::unique_ptr<viz::Page> make_page(const viz::PageContext&) {
  return std::make_unique<Fp8Page>();
}

}  // namespace lesson14
