#include "viz/pictures.h"

#include <algorithm>
#include <fstream>
#include <memory>
#include <utility>

#include "common/base/error.h"
#include "viz/headless.h"
#include "viz/shell.h"

namespace viz {

std::vector<Picture> load_pictures(const std::filesystem::path& list) {
  std::ifstream in(list);
  if (!in) kv::user_error("{}: cannot read the list of pictures", list.string());
  std::vector<Picture> pictures;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    const Command command = parse_command(line, ++number);
    if (command.verb.empty()) continue;
    command.check_count(2, 2);
    pictures.push_back({.file = command.verb,
                        .scenario = command.word(0, "a scenario"),
                        .steps = static_cast<size_t>(command.number(1, "steps", 0, 1 << 20))});
  }
  return pictures;
}

std::vector<uint8_t> draw_picture(const Picture& picture, const std::vector<MakePage>& pages,
                                  const std::filesystem::path& project) {
  const PageContext context{.model_dir = project / "models" / "tiny", .device = "cpu", .seed = 0};
  std::vector<std::unique_ptr<Page>> made;
  for (const MakePage make : pages) made.push_back(make(context));
  const std::filesystem::path file = project / picture.scenario;
  std::vector<std::filesystem::path> siblings;
  for (const auto& entry : std::filesystem::directory_iterator(file.parent_path())) {
    siblings.push_back(entry.path());
  }
  std::sort(siblings.begin(), siblings.end());
  Shell shell(std::move(made), siblings);
  Scenario scenario = Scenario::load(file);
  shell.select(scenario.page);
  shell.session().load(std::move(scenario));
  shell.session().play_on(picture.steps > 0 ? picture.steps : SIZE_MAX);
  Headless headless(shell, Picture::kWidth, Picture::kHeight, 1);
  headless.frame();
  return headless.picture();
}

}  // namespace viz
