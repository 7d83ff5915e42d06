#pragma once

// A folder that goes away with its test.

#include "common/temp_folder.h"

namespace kvtest {

using TempDir = kv::TempFolder;

}  // namespace kvtest
