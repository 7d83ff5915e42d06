#include "temp_folder.h"

#include <stdlib.h>

#include <cstdlib>
#include <string>
#include <system_error>

#include "error.h"

namespace kv {

TempFolder::TempFolder() {
  std::error_code error;
  std::string name = (std::filesystem::temp_directory_path(error) / "page_by_page_").string();
  if (error) {
    const char* const named = std::getenv("TMPDIR");
    user_error("{}{}: no folder for temporary files; set TMPDIR to one that can be written",
               named ? "TMPDIR=" : "", named ? named : "/tmp");
  }
  name += std::string(6, 'X');  // mkdtemp puts other letters there
  if (::mkdtemp(name.data()) == nullptr) {
    user_error("a temporary folder {} cannot be made; set TMPDIR to one that can be written", name);
  }
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace kv
