#include "instruments/load/account.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <unordered_map>

#include "common/hash.h"
#include "common/table.h"
#include "common/utf8.h"

namespace load {
namespace {

using nlohmann::json;

/// "19.4 ms", "1.52 s".
std::string human_seconds(double seconds) {
  if (seconds >= 1) return fmt::format("{:.2f} s", seconds);
  if (seconds < 1e-4) return fmt::format("{:.0f} us", seconds * 1e6);  // tokens that come together
  return fmt::format("{:.{}f} ms", seconds * 1e3, seconds < 0.1 ? 1 : 0);
}

/// Some characters around the place where two answers part.
std::string difference_of(const Outcome& one, const Outcome& other) {
  const auto [a, b] =
      std::mismatch(one.answer.begin(), one.answer.end(), other.answer.begin(), other.answer.end());
  const auto around = [](const std::string& text, std::string::const_iterator place) {
    const auto at = place - text.begin();
    std::string part = text.substr(static_cast<size_t>(std::max<std::ptrdiff_t>(0, at - 20)), 40);
    for (char& c : part) {
      if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7E) c = ' ';
    }
    return part;
  };
  return fmt::format("request {}: '..{}..', and of the same request '..{}..'", one.request,
                     around(one.answer, a), around(other.answer, b));
}

void compare(Comparison& into, const Outcome& one, const Outcome& other) {
  ++into.compared;
  if (one.answer == other.answer) {
    ++into.equal;
  } else if (into.first_difference.empty()) {
    into.first_difference = difference_of(one, other);
  }
}

json quantiles_of(const std::vector<double>& sorted) {
  json all;
  for (const int percent : {50, 90, 99}) {
    all[fmt::format("p{}", percent)] = Account::quantile(sorted, percent / 100.0) * 1e3;
  }
  return all;
}

}  // namespace

Comparison compare_equal(const std::vector<Outcome>& outcomes,
                         const std::vector<std::string>& bodies) {
  Comparison comparison;
  std::unordered_map<std::string, const Outcome*> first;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.error.empty()) continue;
    const auto [found, is_new] = first.emplace(bodies[outcome.request], &outcome);
    if (!is_new) compare(comparison, *found->second, outcome);
  }
  return comparison;
}

Comparison compare_runs(const std::vector<Outcome>& company, const std::vector<Outcome>& alone) {
  Comparison comparison;
  std::unordered_map<size_t, const Outcome*> in_company;
  for (const Outcome& outcome : company) {
    if (outcome.error.empty()) in_company.emplace(outcome.request, &outcome);
  }
  for (const Outcome& outcome : alone) {
    const auto found = in_company.find(outcome.request);
    if (outcome.error.empty() && found != in_company.end())
      compare(comparison, *found->second, outcome);
  }
  return comparison;
}

uint64_t digest_of(const std::vector<Outcome>& outcomes) {
  std::map<size_t, uint64_t> digests;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.error.empty()) continue;
    digests[outcome.request] = kv::xxh64(std::as_bytes(std::span(outcome.answer)));
  }
  std::vector<uint64_t> in_order;
  for (const auto& [request, digest] : digests) in_order.push_back(digest);
  return kv::xxh64(std::as_bytes(std::span(in_order)));
}

Account::Account(std::vector<Outcome> outcomes, double its_seconds)
    : seconds(its_seconds), num_requests(std::ssize(outcomes)) {
  for (Outcome& outcome : outcomes) {
    if (!outcome.error.empty()) {
      auto& [count, message] = error_kinds[outcome.error];
      if (count++ == 0) message = outcome.error_message;
      continue;
    }
    ++num_whole;
    prompt_tokens += outcome.prompt_tokens;
    tells_cached |= outcome.cached_tokens >= 0;
    cached_tokens += std::max<int64_t>(0, outcome.cached_tokens);
    generated_tokens += outcome.generated_tokens;
    first_token.push_back(outcome.first_token);
    end_to_end.push_back(outcome.total);
    between_tokens.insert(between_tokens.end(), outcome.gaps.begin(), outcome.gaps.end());
  }
  for (auto* values : {&first_token, &between_tokens, &end_to_end})
    std::sort(values->begin(), values->end());
}

double Account::quantile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

std::string Account::table() const {
  kv::Table table({"time", "p50", "p90", "p99"});
  const auto add = [&](const std::string& name, const std::vector<double>& values) {
    std::vector<std::string> row{name};
    for (const double share : {0.5, 0.9, 0.99}) {
      row.push_back(values.empty() ? "-" : human_seconds(quantile(values, share)));
    }
    table.add(row);
  };
  add("first token", first_token);
  add("between tokens", between_tokens);
  add("end to end", end_to_end);
  return table.to_string();
}

std::string Account::errors() const {
  std::string lines;
  for (const auto& [kind, found] : error_kinds) {
    lines += fmt::format("! {} x {}: {}\n", found.first, kind, kv::one_line(found.second));
  }
  return lines;
}

json Account::json() const {
  nlohmann::json errors = nlohmann::json::object();
  for (const auto& [kind, found] : error_kinds) errors[kind] = found.first;
  return {
      {"requests", num_requests},
      {"whole", num_whole},
      {"seconds", seconds},
      {"prompt_tokens", prompt_tokens},
      {"cached_tokens", cached_tokens},
      {"generated_tokens", generated_tokens},
      {"tokens_per_second", seconds > 0 ? static_cast<double>(generated_tokens) / seconds : 0.0},
      {"first_token_ms", quantiles_of(first_token)},
      {"between_tokens_ms", quantiles_of(between_tokens)},
      {"end_to_end_ms", quantiles_of(end_to_end)},
      {"errors", errors}};
}

}  // namespace load
