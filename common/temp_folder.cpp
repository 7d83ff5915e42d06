#include "temp_folder.h"

#include <stdlib.h>

#include <string>
#include <system_error>

#include "error.h"

namespace kv {

TempFolder::TempFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "page_by_page_").string();
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
