#pragma once

// Reads what tools/make_golden.py stored, and runs the same sequences through our model.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/error.h"
#include "lessons/01_no_cache/engine.h"
#include "qwen3/model.h"
#include "qwen3/safetensors.h"

namespace golden {

inline std::filesystem::path folder(const std::string& name) {
  return std::filesystem::path(KV_SOURCE_DIR) / "tests" / "golden" / name;
}

/// The folder of the model of that name: the tiny one ships, the others lie beside their values.
inline std::filesystem::path model_folder(const std::string& name) {
  const std::filesystem::path shipped = std::filesystem::path(KV_SOURCE_DIR) / "models" / "tiny";
  return name == "tiny" ? shipped : folder(name);
}

/// Copies a tensor out of a file. Throws UserError if it is not there or of another type.
template <typename T>
std::vector<T> read(const kv::SafetensorsFile& file, const std::string& name,
                    const std::string& dtype) {
  const auto it = file.tensors().find(name);
  if (it == file.tensors().end() || it->second.dtype != dtype) {
    throw kv::UserError(file.path().string() + ": no " + dtype + " tensor '" + name +
                        "'; make the file again with tools/make_golden.py");
  }
  std::vector<T> values(it->second.bytes / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), it->second.data, it->second.bytes);
  return values;
}

/// One sequence of tokens, and the reference's logits of some of its rows.
struct Sequence {
  std::vector<int32_t> ids;   // [length]
  std::vector<int32_t> rows;  // [rows], ascending
  std::vector<float> logits;  // [rows, vocab]
};

struct Values {
  std::vector<Sequence> sequences;
  double bf16_error = 0;  // relative error of the reference's own bf16 run
};

inline Values load_values(const std::string& name) {
  const auto file = kv::SafetensorsFile::open(folder(name) / "golden.safetensors");
  Values values;
  values.bf16_error = read<float>(file, "bf16_error", "F32").at(0);
  for (int n = 0; file.tensors().contains("ids." + std::to_string(n)); ++n) {
    const std::string suffix = "." + std::to_string(n);
    values.sequences.push_back({read<int32_t>(file, "ids" + suffix, "I32"),
                                read<int32_t>(file, "rows" + suffix, "I32"),
                                read<float>(file, "logits" + suffix, "F32")});
  }
  return values;
}

/// Logits of the wanted rows of all `sequences`, which share one pass: [all their rows, vocab].
inline std::vector<float> logits_of(kv::Model& model, lesson01::CausalAttention& attention,
                                    std::span<const Sequence> sequences) {
  kv::PassRows pass;
  for (const Sequence& s : sequences) {
    for (const int32_t row : s.rows) pass.logit_rows.push_back(pass.num_rows() + row);
    pass.add(0, s.ids, 0, false);
  }
  const std::span<const float> logits = model.forward(pass, attention);
  return {logits.begin(), logits.end()};
}

/// How far two arrays are apart, on the scale of the wanted one. NaN stays NaN.
struct Error {
  double norm = 0;     // ||got - want|| / ||want||
  double largest = 0;  // max |got - want| / max |want|
};

inline Error error_of(std::span<const float> got, std::span<const float> want) {
  if (got.size() != want.size() || want.empty()) return {NAN, NAN};
  double difference = 0;
  double norm = 0;
  double worst = 0;
  double scale = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double d = double{got[i]} - double{want[i]};
    difference += d * d;
    norm += double{want[i]} * double{want[i]};
    if (!(std::abs(d) <= worst)) worst = std::abs(d);  // true for NaN, which then stays
    scale = std::max(scale, std::abs(double{want[i]}));
  }
  if (std::isnan(difference)) worst = NAN;
  return {std::sqrt(difference / norm), worst / scale};
}

}  // namespace golden
