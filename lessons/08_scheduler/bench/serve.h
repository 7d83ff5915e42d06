#pragma once

#include <filesystem>

#include "programs/lab.h"

namespace bench {

/// Measures a busy server: tokens per second, the share of the time that reading takes at least,
/// and the host's part of each pass. Then measures the first token of a prompt on an idle server.
/// Writes the requests to `folder`, unless it is empty, as ./course load --prompts reads them.
void measure_serving(kv::Lab& lab, const std::filesystem::path& folder);

}  // namespace bench
