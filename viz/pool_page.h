#pragma once

// A page with a pool of its own, in whose place a live run of the lesson's engine can be watched.
//
//   struct PageSettings { int num_blocks = 24; };  // what commands that start over change
//   struct Shown { viz::PoolView pool; };          // what a picture is made of
//   class PrefixPage : public viz::PoolPage<Shown, PageSettings> {
//     std::string begin() override;  // makes an empty pool of settings_, and says so
//     Shown look() override;         // of the pool, or of the engine while live_.running()
//   };
//
// Its constructor declares the commands of its pool (declare_own), those that start over with other
// settings (fresh), and those of the live run (live_.verbs or declare_steps), and calls
// reset(). Its scene() draws now_, with the motion that leads there from before_.

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "viz/live.h"
#include "viz/names.h"
#include "viz/page.h"

namespace viz {

struct NoSettings {};

/// Blocks that no table holds, of all blocks.
template <class Pool>
Counter free_counter(const Pool& pool) {
  return {"free", pool.num_free(), "free", "Blocks that no table holds.",
          fmt::format("{} / {}", pool.num_free(), pool.num_blocks())};
}

/// `LiveRunner` is viz::Live, or a class of the lesson that derives from it.
template <class Shown, class Settings = NoSettings, class LiveRunner = Live>
class PoolPage : public Page {
 public:
  void reset() override {
    restart({});
    changed();
  }

 protected:
  PoolPage(PageInfo info, const PageContext& context) : Page(std::move(info)), live_(context) {}

  /// Makes an empty pool of settings_, and says in plain words what it made.
  virtual std::string begin() = 0;
  /// Returns the state to show now.
  virtual Shown look() = 0;

  /// Ends the live run, and begins with an empty pool.
  std::string restart(const Settings& settings) {
    live_.stop();
    settings_ = settings;
    vocabulary_ = {};  // the same commands give the same tokens again
    now_ = {};
    return begin();
  }

  void changed() override {
    // A live run has a pool of its own: nothing moves from one pool to the other.
    if (std::exchange(was_live_, live_.running()) != live_.running()) now_ = {};
    before_ = std::exchange(now_, look());
  }
  /// The picture stands still and says why, if it has a member `reason` (and `points_at`).
  void refused(const Command&, const std::string& why) override {
    if constexpr (requires { now_.reason; }) now_.reason = "refused: " + why;
    if constexpr (requires { now_.points_at; }) now_.points_at.clear();
    before_ = now_;
  }

  /// Commands of the pool: refused while the engine runs.
  void declare_own(std::vector<Verb> verbs) { declare(live_.without_run(std::move(verbs))); }
  /// A command that starts over. Its words become these members of the settings, in order; of a
  /// choice it is the index, so that bools and enums can be chosen.
  template <class... Member>
  Verb fresh(std::string name, std::vector<Argument> args, std::string help,
             Member Settings::*... member) {
    const auto run = [this, member...](const Words& words) {
      return restart(with(words, member...));
    };
    const auto holds = [this, member...](const Words& words) {
      auto word = words.begin();
      return ((settings_.*member == static_cast<Member>((word++)->number)) && ...);
    };
    return {.name = std::move(name),
            .args = std::move(args),
            .help = std::move(help),
            .run = run,
            .holds = holds};
  }
  /// The same for a command that changes the settings of what is there, and says so.
  template <class... Member>
  Verb setting(std::string name, std::vector<Argument> args, std::string help,
               std::function<std::string(const Words&)> says, Member Settings::*... member) {
    Verb verb = fresh(std::move(name), std::move(args), std::move(help), member...);
    verb.run = [this, says = std::move(says), member...](const Words& words) {
      settings_ = with(words, member...);
      return says(words);
    };
    return verb;
  }
  /// `step`, with which the pool or the live run goes on, and `stop`, which leaves an empty pool.
  /// The step's own why_not is asked if there is no live run.
  void declare_steps(Verb step) {
    step.goes_on = true;
    step.why_not = [this, idle = std::move(step.why_not)](const Words& words) -> std::string {
      if (live_.finished()) return "the run has ended; `stop` leads back";
      return live_.running() ? "" : idle(words);
    };
    declare({std::move(step),
             {"stop",
              {},
              "end the live run; an empty pool is left",
              [this](auto&) { return restart(settings_); },
              [this](auto&) { return live_.running() ? "" : "there is no live run"; }}});
  }

  /// Notes the reason that the picture shows, and the shape that it is about (if there is a member
  /// `points_at`). Returns the reason.
  std::string tell(std::string reason, std::string points_at = {}) {
    shown_.reason = std::move(reason);
    if constexpr (requires { shown_.points_at; }) shown_.points_at = std::move(points_at);
    return shown_.reason;
  }

  /// Texts of tokens: of the model that runs, or of the words that requests of the page came with.
  std::string word(int32_t token) const {
    return live_.running() ? live_.word(token) : vocabulary_.word(token);
  }
  std::vector<std::string> words(std::span<const int32_t> tokens) const {
    std::vector<std::string> words;
    for (const int32_t token : tokens) words.push_back(word(token));
    return words;
  }

  /// The thing that buttons are for: the one that was clicked, or came last.
  template <class T>
  std::string chosen(const NamedList<T>& things) const {
    return things.find(selected()) != nullptr ? selected() : things.names().back();
  }

  LiveRunner live_;
  Settings settings_ = {};
  Vocabulary vocabulary_;         // of words that are tokens
  Shown shown_ = {};              // the current state, of pages that keep it for look()
  Shown before_ = {}, now_ = {};  // before and after the last command

 private:
  /// The settings, with these members changed.
  template <class... Member>
  Settings with(const Words& words, Member Settings::*... member) const {
    Settings settings = settings_;
    auto word = words.begin();
    ((settings.*member = static_cast<Member>((word++)->number)), ...);
    return settings;
  }

  bool was_live_ = false;
};

}  // namespace viz
