// The page that follows a server's cache: its prefixes below, above them what was evicted until it
// comes again.

#include "viz/page.h"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "instruments/watch/page/watched_cache.h"
#include "viz/ui.h"

namespace watch {
namespace {

class WatchPage : public viz::Page {
 public:
  explicit WatchPage(const viz::PageContext& context);

  void reset() override;
  std::vector<viz::Counter> counters() const override { return watched_.counters(); }
  void check_invariants() const override {}
  viz::Scene scene(const viz::Room& room) override {
    return lesson07::queue_scene(room, before_, now_, note_, WatchedCache::legend());
  }
  void draw(viz::Ui& ui) override;

 protected:
  void changed() override { before_ = std::exchange(now_, watched_.shown()); }
  void refused(const viz::Command&, const std::string& why) override {
    note_ = "Refused: " + why + ".";
    before_ = now_;
  }

 private:
  std::string watch(const std::string& what, const std::string& replay_endpoint);

  std::filesystem::path model_dir_;
  // Of servers, by their endpoints. reset() keeps them: a server does not send a frame again.
  std::map<std::string, std::shared_ptr<Feed>> feeds_;
  WatchedCache watched_;
  std::string note_;
  Shown before_, now_;  // the last command
};

WatchPage::WatchPage(const viz::PageContext& context)
    : Page({.lesson = "watch",
            .title = "A server's cache",
            .summary = "What is in the cache of a server, as its events tell it. What is "
                       "evicted goes up, and comes down if it is stored again."}),
      model_dir_(context.model_dir),
      watched_(nullptr, model_dir_) {
  declare(
      {{"watch",
        {viz::text("WHAT").field("a server, tcp:// or http://HOST:PORT, or a recording", "example"),
         viz::word("REPLAY").or_else("")},
        "the cache of a server: WHAT is its endpoint, or a recording that ./course watch made, "
        "or example; a server is asked for what is missing at REPLAY",
        [this](auto& w) { return watch(w[0].text, w[1].text); }},
       {"attach",
        {viz::text("URL")},
        "the cache of ./course serve at URL, as http://127.0.0.1:8000: what is in it, and "
        "what happens to it",
        [this](auto& w) { return watch(w[0].text, ""); }},
       {"next",
        {viz::number("COUNT", 1, 100'000).or_else("0")},
        "the next COUNT batches; without it one of a recording, all that a server has sent",
        [this](auto& w) { return note_ = watched_.next(w[0].number); },
        [this](auto&) { return watched_.why_not_next(); },
        true,
        [this] { return watched_.waits(); }}});
  WatchPage::reset();
}

void WatchPage::reset() {
  watched_ = WatchedCache(nullptr, model_dir_);
  note_ = watched_.story();
  now_ = {};
  changed();
}

std::string WatchPage::watch(const std::string& what, const std::string& replay_endpoint) {
  std::shared_ptr<Feed> feed;
  if (!Feed::is_endpoint(what)) {
    feed = std::make_shared<Feed>(what == "example" ? KV_RECORDINGS "/example.kvevents" : what,
                                  replay_endpoint);
  } else {
    std::shared_ptr<Feed>& kept = feeds_[what + " " + replay_endpoint];
    const bool has_ended = kept && Feed::is_http(what) && !kept->error().empty();
    if (!kept || has_ended) kept = std::make_shared<Feed>(what, replay_endpoint);
    feed = kept;
  }
  watched_ = WatchedCache(std::move(feed), model_dir_);
  now_ = {};
  return note_ = watched_.story();
}

void WatchPage::draw(viz::Ui& ui) {
  const bool is_live = watched_.is_live();
  buttons(ui, {{"next", is_live ? "What has come" : "Next batch", "next"},
               {"next 10", is_live ? "10 of it" : "Next 10", "next 10"}});
  const std::string what = field(ui, "watch", "WHAT");
  ui.same_line();
  buttons(ui, {{"watch/start", "Watch", viz::Command{.verb = "watch", .args = {what}}.text()}});
}

}  // namespace

std::unique_ptr<viz::Page> make_page(const viz::PageContext& context);
std::unique_ptr<viz::Page> make_page(const viz::PageContext& context) {
  return std::make_unique<WatchPage>(context);
}

}  // namespace watch
