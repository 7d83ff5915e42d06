#include "reject_guesses.h"

namespace lesson09 {

void reject_guesses_cpu(const RejectGuessesArgs& args) {
  for (int row = 1; row < args.num_rows; ++row) {
    // No guess equals a choice of -1, so one wrong guess takes the rest of its sequence with it.
    if (args.guesses[row] >= 0 && args.guesses[row] != args.chosen[row - 1]) args.chosen[row] = -1;
  }
}

}  // namespace lesson09
