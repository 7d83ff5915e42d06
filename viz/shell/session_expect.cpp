// Claims of a scenario about the page: values of counters, and commands that are refused.

#include <fmt/ranges.h>

#include <map>
#include <optional>
#include <string>

#include "common/error.h"
#include "viz/shell/session.h"

namespace viz {

void Session::expect(const Command& command) const {
  command.check_count(2, 3);
  const std::string& name = command.args[0];
  const std::optional<int64_t> found = page_->counter(name);
  if (!found) {
    kv::user_error("{}expect: no counter `{}`; there are {}", command.place(), name,
                   fmt::join(page_->counter_names(), " "));
  }
  const std::string op = command.args.size() == 3 ? command.args[1] : "=";
  const int64_t wanted = command.number(command.args.size() - 1, "a number", INT64_MIN, INT64_MAX);
  const std::map<std::string, bool> holds{{"=", *found == wanted},
                                          {"<", *found < wanted},
                                          {"<=", *found <= wanted},
                                          {">", *found > wanted},
                                          {">=", *found >= wanted}};
  if (!holds.contains(op)) {
    kv::user_error("{}expect: wanted =, <, <=, > or >=, found {}", command.place(), op);
  }
  if (!holds.at(op)) {
    kv::user_error("{}expected {} {} {}, found {}", command.place(), name, op, wanted, *found);
  }
}

void Session::fails(const Command& command) {
  const Command inner{.verb = command.word(0, "a command"),
                      .args = {command.args.begin() + 1, command.args.end()},
                      .line = command.line};
  // An unknown name is refused as well, which proves nothing.
  if (!page_->knows(inner)) {
    kv::user_error("{}fails: this page has no command `{}`", command.place(), inner.verb);
  }
  ++revision_;  // pages show why they refuse
  moves_on_ = true;
  std::string refusal;
  try {
    page_->apply(inner);
  } catch (const kv::UserError& error) {
    refusal = error.what();
  }
  page_->check_invariants();
  if (refusal.empty()) {
    replay(done_.size());  // it was done: take it back
    kv::user_error("{}expected that `{}` is refused, but it was done", command.place(),
                   inner.text());
  }
  tell("refused: " + refusal, false);
}

}  // namespace viz
