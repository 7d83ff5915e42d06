#pragma once

// One query's way through its keys, step by step, for the page and the text. Its arithmetic is that
// of fast_paged_attention_cpu, stopped after every tile and every group. CPU only.

#include <cstdint>
#include <span>
#include <vector>

#include "lessons/04_paged_attention/paged_attention.h"
#include "qwen3/model.h"

namespace lesson04 {

/// The partial result of some keys; see kernels/attention/contract.h. An empty acc means no key
/// yet.
struct Summary {
  float m = 0;             // a score near the largest so far
  float l = 0;             // sum of exp(score - m)
  std::vector<float> acc;  // sum of exp(score - m) * v, [head_dim]
  bool operator==(const Summary&) const = default;
};

struct WalkStep {
  enum class Kind {
    kTile,    // a tile adds to its group: `before` becomes `after`
    kGroup,   // a group joins the result: `before` and `taken` give `after`
    kDivide,  // the end: out = before.acc / before.l
  };
  Kind kind = Kind::kTile;
  int tile = 0;         // counted from token 0; kGroup, kDivide: the last one so far
  int group = 0;        // counted from token 0
  int first_token = 0;  // tokens that this step is about: the tile's, the group's, all of them
  int num_tokens = 0;
  std::vector<int32_t> block_ids;  // blocks that hold them, in token order: looked up in the table
  std::vector<float> scores;       // kTile: [num_tokens], q . k * scale
  std::vector<float> weights;      // kTile: [num_tokens], exp(score - after.m)
  Summary before;                  // an empty acc: nothing yet
  Summary taken;                   // kGroup: the group
  Summary after;
  std::vector<float> out;  // kDivide: [head_dim]

  /// Whether a tile's scores are so far above its group's m that m moves.
  bool m_moves() const { return kind == Kind::kTile && !before.acc.empty() && after.m != before.m; }
};

/// The steps of query row `row` of the pass and query head `head`. `args` are the CPU's; args.out
/// is not used. The last step's out has the bits that fast_paged_attention_cpu gives. Returns no
/// steps if the query sees no key. Throws std::out_of_range for a row or a head that does not
/// exist.
std::vector<WalkStep> walk(const PagedAttentionArgs& args, int row, int head);

/// A prompt's last token in one layer of a real model.
struct ModelWalk {
  std::vector<int32_t> block_table;  // where the prompt's K and V lie: not in order, as in a
                                     // server's pool that has been running for a while
  std::vector<WalkStep> steps;
};

/// Runs the prompt through a model on the CPU, in blocks of `block_size`, and walks over its keys
/// with the query of the last token. Throws UserError for an empty prompt, a model on another
/// device, or a layer or a head that the model does not have.
ModelWalk walk_prompt(kv::Model& model, std::span<const int32_t> prompt, int block_size, int layer,
                      int head);

/// Whether two walks saw the same numbers at every step, bit for bit.
bool same_bits(const ModelWalk& a, const ModelWalk& b);

}  // namespace lesson04
