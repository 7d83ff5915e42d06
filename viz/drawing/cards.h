#pragma once

// The first screen of a page: its scenarios as cards, each with a small still of where it leads.

#include <array>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "viz/page.h"
#include "viz/shell/session.h"

namespace viz {

/// All pages, new.
using PageFactory = std::function<std::vector<std::unique_ptr<Page>>()>;

class Cards {
 public:
  /// Scenarios of this page, by their order. Live runs come last: they compute, so their stills do.
  Cards(PageInfo page, std::vector<Scenario> scenarios);

  const std::vector<Scenario>& scenarios() const { return scenarios_; }
  /// Ids of everything that a card starts, in the order of the cards: "scenario/NAME", and "start"
  /// as the last.
  std::vector<std::string> targets() const;
  /// A card for each, "scenario/NAME" with "scenario/NAME/still", and "start": what a click on it
  /// selects.
  Scene scene(const Room& room) const;
  /// Scenes to be drawn small into the cards, made for these rooms; cards.scene() takes the one
  /// that lets its stills be larger.
  static constexpr Room kStills[] = {{760, 460}, {760, 720}};
  /// Returns the scene whose room has the shape of the place; null while it is not done.
  const Scene* still(std::string_view name, const Place& at) const;
  /// Plays one more step of the next scenario without a still, on a page of its own. Live runs come
  /// last, because they compute. Returns false when all stills are done.
  bool draft(const PageFactory& make_pages);

 private:
  Scene drawn(const Room& room) const;
  void begin(const PageFactory& make_pages);

  PageInfo page_;
  std::vector<Scenario> scenarios_;
  mutable Scene scene_;  // as it was asked for last: it takes a while to lay out
  using Stills = std::array<Scene, std::size(kStills)>;
  std::vector<Stills> stills_;        // in the same order; empty: none yet
  size_t drafted_ = 0;                // number of stills that are done
  std::unique_ptr<Session> session_;  // plays the next one
};

}  // namespace viz
