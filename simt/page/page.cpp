// The page about one warp: what its loads and stores want, and what the memory moves for them.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/table.h"
#include "simt/page/picture.h"
#include "simt/page/traffic.h"
#include "viz/page.h"
#include "viz/ui.h"

namespace viz {
namespace {

class WarpPage : public Page {
 public:
  WarpPage();
  void reset() override;
  std::vector<Counter> counters() const override;
  void check_invariants() const override;
  Scene scene(const Room& room) override {
    return warp_scene(room, {&traffic_, line_, request_, followed_, fresh_});
  }
  void draw(Ui& ui) override;

 protected:
  void changed() override {
    const std::tuple now{name_, line_, request_};
    fresh_ = std::exchange(before_, now) != now;
  }

 private:
  std::string open(const std::string& name);
  std::string show(int line, int request);
  std::string next();
  std::string why_not_next() const;
  std::string why_not_show(int line, int request) const;

  const TrafficLine& line() const { return traffic_.lines.at(static_cast<size_t>(line_)); }
  const WarpRequest& request() const { return line().shown.at(static_cast<size_t>(request_)); }
  int num_lines() const { return static_cast<int>(traffic_.lines.size()); }
  int num_shown() const { return static_cast<int>(line().shown.size()); }

  std::vector<std::string> shipped_;  // names of the recordings in KV_TRACES, in order
  std::string name_;
  Traffic traffic_;
  int line_ = 0;
  int request_ = 0;
  int followed_ = -1;
  std::tuple<std::string, int, int> before_;  // recording, line and request
  bool fresh_ = false;                        // the last command has changed them
};

WarpPage::WarpPage()
    : Page({.lesson = "warp",
            .title = "One warp",
            .summary =
                "What the 32 lanes of a warp want from memory at once, and what is moved for it.",
            .opening = {"open strided", "follow 3"}}) {
  std::error_code none;
  for (const auto& file : std::filesystem::directory_iterator(KV_TRACES, none)) {
    if (file.path().extension() == ".json") shipped_.push_back(file.path().stem().string());
  }
  std::ranges::sort(shipped_);
  declare({{"open",
            {text("FILE").field("a recording", "")},
            "shows a recording: one that ships, or a file of tools/warp_trace.py",
            [this](auto& w) { return open(w[0].text); }},
           {"line",
            {number("N", 1, 1 << 20)},
            "shows the first request of line N of the list",
            [this](auto& w) { return show(w[0].number - 1, 0); },
            [this](auto& w) { return why_not_show(w[0].number - 1, 0); }},
           {"request",
            {number("N", 1, 1 << 20)},
            "shows request N of this line",
            [this](auto& w) { return show(line_, w[0].number - 1); },
            [this](auto& w) { return why_not_show(line_, w[0].number - 1); }},
           {"next",
            {},
            "the next request, or the next line's first one",
            [this](auto&) { return next(); },
            [this](auto&) { return why_not_next(); },
            true},
           {"follow",
            {number("LANE", 0, kLanes - 1)},
            "one lane's lines stand out",
            [this](auto& w) {
              followed_ = w[0].number;
              return fmt::format("lane {} is followed", followed_);
            },
            [this](auto& w) { return followed_ == w[0].number ? "it is followed already" : ""; }},
           {"unfollow",
            {},
            "all lanes look alike again",
            [this](auto&) {
              followed_ = -1;
              return "no lane is followed";
            },
            [this](auto&) { return followed_ < 0 ? "no lane is followed" : ""; }}});
  WarpPage::reset();
}

void WarpPage::reset() {
  traffic_ = {};
  name_.clear();
  line_ = request_ = 0;
  followed_ = -1;
  changed();
}

std::string WarpPage::open(const std::string& name) {
  const bool ships = std::ranges::count(shipped_, name) > 0;
  Traffic traffic = Traffic::load(ships ? std::filesystem::path(KV_TRACES) / (name + ".json")
                                        : std::filesystem::path(name));
  traffic_ = std::move(traffic);
  name_ = ships ? name : std::filesystem::path(name).filename().string();
  line_ = request_ = 0;
  return fmt::format("{}: {} of source", name_, kv::count_of(num_lines(), "line"));
}

std::string WarpPage::why_not_show(int line, int request) const {
  if (traffic_.lines.empty()) return "no recording is open";
  if (line >= num_lines()) return fmt::format("there are {}", kv::count_of(num_lines(), "line"));
  const auto shown = std::ssize(traffic_.lines[static_cast<size_t>(line)].shown);
  if (request >= shown) return fmt::format("{} kept", kv::count_of(shown, "request"));
  return line == line_ && request == request_ ? "you are looking at it" : "";
}

std::string WarpPage::show(int line, int request) {
  line_ = line;
  request_ = request;
  return fmt::format("{}: {}", this->line().place(), sum_of(this->line(), this->request()));
}

std::string WarpPage::why_not_next() const {
  if (traffic_.lines.empty()) return "no recording is open";
  const bool is_last = line_ == num_lines() - 1 && request_ == num_shown() - 1;
  return is_last ? "this is the last request of the last line" : "";
}

std::string WarpPage::next() {
  return request_ + 1 < num_shown() ? show(line_, request_ + 1) : show(line_ + 1, 0);
}

std::vector<Counter> WarpPage::counters() const {
  std::vector<Counter> all{{"lines", num_lines()}, {"followed", followed_}};
  if (traffic_.lines.empty()) return all;
  const TrafficLine& l = line();
  const auto moved = l.shared ? std::ssize(passes_of(request(), l.bytes))
                              : std::ssize(sectors_of(request(), l.bytes));
  all.push_back({"line", line_ + 1});
  all.push_back({"request", request_ + 1});
  all.push_back({"active", std::popcount(active_lanes(request())), "active lanes",
                 "Lanes that take part in this request"});
  all.push_back({"moved", moved, l.shared ? "passes" : "sectors",
                 l.shared ? "Passes through the banks that this request takes"
                          : "Sectors of 32 bytes that this request touches"});
  all.push_back({"requests", l.requests, "requests", "How often a warp came to this line",
                 kv::with_commas(l.requests)});
  all.push_back({"total", l.moved, l.shared ? "passes in all" : "sectors in all",
                 "Of all requests of this line", kv::with_commas(l.moved)});
  all.push_back({"least", l.least, "at least", "So few could do", kv::with_commas(l.least)});
  all.push_back(l.shared ? share("wanted", l.least, l.moved, "needed",
                                 "The fewest passes that could do, of those it takes", 1)
                         : share("wanted", l.wanted, l.moved * kSectorBytes, "of it wanted",
                                 "Bytes that a lane wants, of those that are moved", 1));
  return all;
}

void WarpPage::check_invariants() const {
  if (traffic_.lines.empty()) return;
  if (active_lanes(request()) == 0) throw std::logic_error("a request without lanes is shown");
}

void WarpPage::draw(Ui& ui) {
  std::vector<Button> row;
  for (const std::string& name : shipped_) row.push_back({"open/" + name, name, "open " + name});
  buttons(ui, row);
  form(ui, {"open", "Open", "open"});
  if (traffic_.lines.empty()) return;
  buttons(ui, {{"line before", "< line", fmt::format("line {}", std::max(line_, 1))},
               {"line after", "line >", fmt::format("line {}", line_ + 2)},
               {"request before", "< request", fmt::format("request {}", std::max(request_, 1))},
               {"request after", "request >", fmt::format("request {}", request_ + 2)},
               {"unfollow", "all lanes", "unfollow"}});
  ui.hint(fmt::format("{}, {}, recorded with: {}", name_, line().kernel, traffic_.made_by));
}

}  // namespace

}  // namespace viz

namespace simt {

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context);
std::unique_ptr<viz::Page> make_page(const viz::PageContext&) {
  return std::make_unique<viz::WarpPage>();
}

}  // namespace simt
