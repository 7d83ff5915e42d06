#pragma once

// The steps before BPE: NFC, and the cut into words. Internal to the tokenizer.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kv {

/// Unicode normal form C of valid UTF-8. Takes time n log n for any text of n bytes.
std::string to_nfc(std::string_view text);

/// A regular expression that cuts text into its matches and the stretches between them, as the
/// tokenizers library's Split with behavior "Isolated" does. Safe to use from several threads.
class RegexSplitter {
 public:
  /// `where` is used in messages. Throws UserError for an invalid pattern.
  RegexSplitter(const std::string& pattern, std::string where);

  /// Appends the pieces of `text` (valid UTF-8), in order; together they are `text`, none is empty.
  /// Throws UserError if the pattern needs absurdly many steps.
  void split(std::string_view text, std::vector<std::string_view>& pieces) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
  std::string where_;
};

}  // namespace kv
