#pragma once

// A page as a picture: shapes with an identity, a place, a paint and a text. A page makes a scene
// from its lesson's structures; the window, the browser and SVG files draw the same one
// (viz/shell/scene_view.h, viz/drawing/scene_svg.h), and viz/drawing/motion.h moves what has the
// same identity from one scene to the next. All lengths are in points, y goes down.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace viz {

/// Place of a shape. A line goes from (x, y) to (x + w, y + h).
struct Place {
  float x = 0, y = 0, w = 0, h = 0;
  float right() const { return x + w; }
  float bottom() const { return y + h; }
  float middle_x() const { return x + w / 2; }
  float middle_y() const { return y + h / 2; }
  /// The same, smaller by so much on each side.
  Place inset(float by) const { return {x + by, y + by, w - 2 * by, h - 2 * by}; }
  bool holds(const Place& other) const {
    return other.x >= x && other.y >= y && other.right() <= right() && other.bottom() <= bottom();
  }
  bool operator==(const Place&) const = default;
};

/// The room that a page has for its picture.
struct Room {
  float w = 960, h = 540;
  bool is_told = false;  // a sentence stands below: a page may leave its note to it
};

/// Meaning of a colour. Hue is a sequence (a request, a beam), and nothing else.
enum class Ink : uint8_t {
  kNone,
  kGround,  // of the whole picture
  kPanel,   // a field on it
  kCell,    // an empty cell
  kLine,    // frames and arrows that say nothing new
  kDim,     // text of second rank
  kText,
  kMark,   // what the last command changed
  kError,  // what went wrong, or is refused
  kHue,    // Paint::hue says which sequence
};
struct Paint {
  Ink ink = Ink::kNone;
  int hue = 0;
  float strength = 1;  // 0: the ground shines through
  bool operator==(const Paint&) const = default;
};
/// Of fields on which text stands.
constexpr float kSoft = 0.55f;  // on white: 2:1 to what is around, 6:1 to a text
constexpr Paint soft(int hue) { return {Ink::kHue, hue, kSoft}; }
/// Of edges, bars, arrows, and names.
constexpr Paint full(int hue) { return {Ink::kHue, hue, 1}; }
constexpr Paint paint(Ink ink, float strength = 1) { return {ink, 0, strength}; }

/// State is a pattern, never a hue: see State in viz/drawing/parts.h.
enum class Pattern : uint8_t { kPlain, kHatched, kDotted, kCrossed, kLined };
enum class Align : uint8_t { kLeft, kCentre, kRight };

/// A part of a motion, of 0 to 1: a shape stands still before and after it.
struct Span {
  float begin = 0, end = 1;
  bool operator==(const Span&) const = default;
};

struct Shape {
  enum class Kind : uint8_t { kBox, kText, kLine };
  Kind kind = Kind::kBox;
  std::string id;  // "block 7", "A/entry 3": unique in its scene
  Place at = {};
  Paint fill = {};  // of a text: its colour
  Paint edge = {};  // of a line: its colour
  float thickness = 1.5f;
  float radius = 4;  // of a box's corners
  Pattern pattern = Pattern::kPlain;
  bool dashed = false;
  bool arrow = false;  // at the end of a line
  std::string text = {};
  float size = 13;  // of the text, an em in points
  Align align = Align::kLeft;
  bool struck = false;  // the text is struck out
  bool cut = false;     // the text did not fit, and was shortened: a test demands that none is
  bool over = false;    // may lie over others: rings, notes, arrows. Drawn last
  float opacity = 1;

  // For the mouse.
  std::string tooltip = {};
  std::string command = {};              // a click runs it
  std::string selects = {};              // a click selects this (Page::select)
  std::vector<std::string> lights = {};  // ids that light up with this one under the mouse
  bool only_lit = false;                 // drawn only then

  // Its motion. Without a hint it moves from where its id was, or fades in.
  std::string from = {};  // a new shape comes from the place of this one in the scene before
  Span when = {};

  // Each returns the shape: scene.box(..).tip("..").comes_from("slot 3/1", {0.2f, 0.5f}).
  Shape& tip(std::string words);
  Shape& runs(std::string line);
  Shape& selecting(std::string what);
  Shape& lighting(std::vector<std::string> ids);
  Shape& comes_from(std::string other, Span span = {});
  Shape& during(Span span);
  Shape& edged(Paint paint, float width = 1.5f);
  Shape& patterned(Pattern its_pattern);
  Shape& dashed_edge();
  Shape& on_top();
  Shape& pointing();  // an arrow
};

/// Size, paint and alignment of a text.
struct Type {
  float size = 13;
  Paint paint = {Ink::kText};
  Align align = Align::kLeft;
};

/// Width of a text, as wide as DejaVu Sans sets it (the same on every machine). UTF-8.
float text_width(std::string_view text, float size);
/// Words in lines of at most `width`.
std::vector<std::string> wrapped(std::string_view text, float size, float width);

class Scene {
 public:
  explicit Scene(Room room) : room_(room) {}
  Scene() = default;

  const Room& room() const { return room_; }
  const std::vector<Shape>& shapes() const { return shapes_; }
  /// Shape that is gone in the next scene, with the place it goes to: see leaves().
  struct Leaving {
    std::string id;
    std::optional<Place> to;  // none: it stays where it was
    Span when;
    bool struck;
  };
  const std::vector<Leaving>& leaving() const { return leaving_; }
  /// Seen only during the motion to this scene.
  struct Ghost {
    Shape shape;
    Place to;
  };
  const std::vector<Ghost>& ghosts() const { return ghosts_; }
  /// Null if there is no such shape. The second overload is for hints on shapes already drawn.
  const Shape* find(std::string_view id) const;
  Shape* find(std::string_view id);
  /// Shapes from the first `count` on: what a part has just drawn.
  std::span<Shape> since(size_t count) { return std::span(shapes_).subspan(count); }

  /// Duration of the motion to this scene, in seconds at usual speed.
  float seconds() const { return seconds_; }
  void lasts(float seconds) { seconds_ = seconds; }

  // The reference is good until the next shape is added.
  Shape& box(std::string id, const Place& at, Paint fill, Paint edge = {});
  /// A line of text in a place: centred up and down, smaller if it has to be (down to `least`),
  /// and shortened if that is not enough.
  Shape& label(std::string id, const Place& at, std::string text, const Type& type = {},
               float least = 9);
  Shape& line(std::string id, float x0, float y0, float x1, float y1, Paint colour,
              float thickness = 1.5f);
  /// Lines of text from the top of the place on; "id 0", "id 1", ... Returns the height.
  float paragraph(const std::string& id, const Place& at, std::string_view text,
                  const Type& type = {});

  /// If the scene before had this shape: it goes to that place, struck out if so wished, and fades
  /// there. What has its id now is another one, and new.
  void leaves(std::string id, const Place& to, Span when = {}, bool struck = false);
  /// The same where it was.
  void ends(std::string id, Span when, bool struck = false);
  /// A shape that travels during the motion to this scene, and is gone at its end.
  void ghost(Shape shape, const Place& to, Span when = {});
  /// Nothing of how it came to this: shapes move straight from where they were.
  void drop_hints();

 private:
  Room room_;
  float seconds_ = 0.45f;
  std::optional<size_t> index_of(std::string_view id) const;

  std::vector<Shape> shapes_;
  // Index of the first indexed_ shapes, made by the first search.
  mutable std::unordered_map<std::string, size_t> index_;
  mutable size_t indexed_ = 0;
  std::vector<Leaving> leaving_;
  std::vector<Ghost> ghosts_;
};

}  // namespace viz
