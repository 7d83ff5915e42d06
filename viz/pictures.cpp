#include "viz/pictures.h"

#include <fstream>
#include <utility>

#include "common/base/error.h"
#include "viz/headless.h"
#include "viz/pages.h"
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

std::vector<uint8_t> draw_picture(const Picture& picture, const std::filesystem::path& project) {
  const PageContext context{.model_dir = project / "models" / "tiny", .device = "cpu", .seed = 0};
  Shell shell(make_pages(context), shipped_scenarios(project));
  Scenario scenario = Scenario::load(project / picture.scenario);
  shell.select(scenario.page);
  shell.session().load(std::move(scenario));
  shell.session().play_on(picture.steps > 0 ? picture.steps : SIZE_MAX);
  Headless headless(shell, Picture::kWidth, Picture::kHeight, 1);
  headless.frame();
  return headless.picture();
}

}  // namespace viz
