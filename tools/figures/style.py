"""The one look of all figures: an SVG builder, colours that colour-blind eyes tell apart, and a dark style
for dark pages. Colours stand in attributes, for programs that read no style sheets."""
import html
import math
import re

from widths import width as width_of

INK, MUTED, FAINT = "#1f2933", "#52606d", "#9aa5b1"
PAGE, PAPER, LINE = "#f7f9fb", "#ffffff", "#cbd2d9"
ORANGE, BLUE, SKY, GREEN, EMPTY = "#d55e00", "#0072b2", "#8cc5e8", "#009e73", "#f0f3f5"
# The same colours on a dark page: of letters, lines and marks (dots, tips), and of areas, on which letters lie.
DARK_INK = {INK: "#e8ecf1", MUTED: "#a7b1bd", FAINT: "#7b8694", LINE: "#3a424e", ORANGE: "#ff8a4c", BLUE: "#56b4e9",
            SKY: "#c3e3f6", GREEN: "#2bc49a", EMPTY: "#23282f", PAPER: "#ffffff"}
DARK_AREA = {PAGE: "#14171c", PAPER: "#1c2027", LINE: "#3a424e", EMPTY: "#23282f", MUTED: "#a7b1bd", FAINT: "#56606c",
             ORANGE: "#a84a00", BLUE: "#00609a", GREEN: "#007455", SKY: "#1d4f72", "#56b4e9": "#2b6f99",
             "#5b6b8c": "#4a5875", "#5fa9d6": "#2b6f99", "#8c6bb1": "#6b4d90", "#a8a2c4": "#575075", "#cc79a7": "#8f4f74",
             "#bfe3d5": "#1f5c4a", "#c7e3f3": "#234f69", "#b3d5ea": "#245a7c", "#cfe3f1": "#1f4257", "#e4eef5": "#1e3340"}
QUIET = {LINE, EMPTY, PAGE, PAPER}  # of frames and grids, which may be faint
FONT = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"


def contrast(one, other):
    """Of two colours, 1 to 21."""
    def light(colour):
        parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        return sum(k * (c / 12.92 if c <= 0.04 else ((c + 0.055) / 1.055) ** 2.4) for k, c in zip((0.2126, 0.7152, 0.0722), parts))
    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)


def num(x):
    """Shortest form of a coordinate, the same on every machine."""
    return f"{x:.2f}".rstrip("0").rstrip(".")


class Svg:
    WIDEST, SMALLEST = 640, 12  # of a picture and of its letters, to be read on a phone
    faults = []                 # of all pictures; all.py empties it after each of them

    def __init__(self, width, height, label, title="", line=""):
        """With a title, a panel fills the picture."""
        self.width, self.height, self.texts, self.boxes = width, height, [], [(0, 0, width, height)]
        self.areas, self.pairs = [(0, 0, width, height, PAGE)], set()  # pairs: colours that lie on one another
        self.frames = None  # of an animation: the first and last that show what is drawn now
        self.parts = [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' "
            f"height='{height}' role='img' aria-label='{html.escape(label, quote=True)}' font-family='{FONT}'>",
            "<defs><pattern id='hatch' width='7' height='7' patternUnits='userSpaceOnUse' "
            "patternTransform='rotate(45)'><rect width='7' height='7' fill='#ffffff'/>"
            f"<rect width='3' height='7' fill='{ORANGE}' fill-opacity='0.45'/></pattern></defs>",
            f"<rect width='{width}' height='{height}' rx='14' fill='{PAGE}'/>"]
        if title:
            self.panel(8, 8, width - 16, height - 16, title, line)

    def add(self, part):
        self.parts.append(part)

    def text(self, x, y, words, size=14, colour=INK, weight=400, anchor="start"):
        """Returns where the words end."""
        length = width_of(words, size, weight)
        left = x - length * {"start": 0, "middle": 0.5, "end": 1}[anchor]
        self.texts.append((words, size, self.frames, (left, y - 0.73 * size, left + length, y + 0.2 * size)))
        self.lies(colour, left + length / 2, y - 0.3 * size, 4.5)
        self.add(f"<text x='{num(x)}' y='{num(y)}' font-size='{num(size)}' font-weight='{weight}' "
                 f"fill='{colour}' text-anchor='{anchor}'>{html.escape(words)}</text>")
        return left + length

    def named(self, x, y, name, words, colour=INK):
        """A name in bold, and words beside it."""
        self.text(self.text(x, y, name, 14, colour, 700) + 10, y, words, 13, MUTED)

    def wrap(self, x, y, words, width, size=14, colour=INK, weight=400):
        """Lines of at most `width` from the baseline `y` on; returns the baseline after the last one."""
        line = ""
        for word in words.split():
            if line and width_of(f"{line} {word}", size, weight) > width:
                self.text(x, y, line, size, colour, weight)
                line, y = "", y + 1.4 * size
            line = f"{line} {word}".lstrip()
        self.text(x, y, line, size, colour, weight)
        return y + 1.4 * size

    def rect(self, x, y, width, height, fill, stroke=LINE, radius=3):
        self.boxes.append((x, y, x + width, y + height))
        self.areas.append((*self.boxes[-1], fill))
        self.add(f"<rect x='{num(x)}' y='{num(y)}' width='{num(width)}' height='{num(height)}' "
                 f"rx='{num(radius)}' fill='{fill}' stroke='{stroke}'/>")

    def panel(self, x, y, width, height, title="", line=""):
        """The title's baseline is at y + 30, that of the line at y + 53; a long one goes on 19 below."""
        self.boxes.append((x, y, x + width, y + height))
        self.areas.append((*self.boxes[-1], PAPER))
        self.add(f"<rect x='{num(x)}' y='{num(y)}' width='{num(width)}' height='{num(height)}' rx='12' "
                 f"fill='{PAPER}' stroke='{LINE}' stroke-width='1.5'/>")
        if title:
            self.text(x + 16, y + 30, title, 17, weight=700)
        if line:
            self.wrap(x + 16, y + 53, line, width - 32, 13.5, MUTED)

    def lies(self, colour, x, y, wanted):
        """Notes what is below a mark, and the contrast that it needs there."""
        below = next((fill for x1, y1, x2, y2, fill in reversed(self.areas) if x1 <= x <= x2 and y1 <= y <= y2), PAGE)
        if colour not in QUIET or wanted > 3:
            self.pairs.add((colour, below, wanted))

    def line(self, x1, y1, x2, y2, colour=LINE, width=1.5, dash="", tip=False):
        self.lies(colour, (x1 + x2) / 2, (y1 + y2) / 2, 3)
        extra = f" stroke-dasharray='{dash}'" if dash else ""
        if tip:  # of the line's colour, and the line ends in it
            length, size = math.hypot(x2 - x1, y2 - y1), min(5 + 2 * width, 11)
            dx, dy = (x2 - x1) / length * size, (y2 - y1) / length * size
            corners = [(x2, y2), (x2 - dx - dy / 2.4, y2 - dy + dx / 2.4), (x2 - dx + dy / 2.4, y2 - dy - dx / 2.4)]
            self.add(f"<path class='m' d='M{' L'.join(f'{num(x)} {num(y)}' for x, y in corners)}z' fill='{colour}'/>")
            x2, y2 = x2 - 0.8 * dx, y2 - 0.8 * dy
        self.add(f"<line x1='{num(x1)}' y1='{num(y1)}' x2='{num(x2)}' y2='{num(y2)}' stroke='{colour}' "
                 f"stroke-width='{num(width)}'{extra}/>")

    def path(self, points, colour, width=2.5):
        for (x1, y1), (x2, y2) in zip(points, points[1:]):
            self.lies(colour, (x1 + x2) / 2, (y1 + y2) / 2, 3)
        d = " ".join(("M" if i == 0 else "L") + f"{num(x)} {num(y)}" for i, (x, y) in enumerate(points))
        self.add(f"<path d='{d}' fill='none' stroke='{colour}' stroke-width='{num(width)}' "
                 "stroke-linejoin='round'/>")

    def dot(self, x, y, colour, square=False, r=5):
        if square:
            a = r - 0.5
            self.add(f"<rect class='m' x='{num(x - a)}' y='{num(y - a)}' width='{num(2 * a)}' height='{num(2 * a)}' rx='1' "
                     f"fill='{colour}'/>")
        else:
            self.add(f"<circle class='m' cx='{num(x)}' cy='{num(y)}' r='{num(r)}' fill='{colour}'/>")

    def legend(self, x, y, entries):
        """(fill, words) from left to right, and on in the next line at the right border; returns the last line's y."""
        at = x
        for fill, words, *_ in entries:
            length = 24 + width_of(words, 13.5)
            if at > x and at + length > self.width - 20:
                at, y = x, y + 24
            self.rect(at, y - 13, 16, 16, fill)
            self.text(at + 24, y, words, 13.5, MUTED)
            at += length + 22
        return y

    def check(self):
        """What a reader on a phone could not read, with the letters of DejaVu Sans."""
        if self.width > self.WIDEST:
            yield f"{self.width} wide, more than {self.WIDEST}"
        for colour in sorted(set(re.findall("#[0-9a-f]{6}", "".join(self.parts))) - set(DARK_INK) - set(DARK_AREA)):
            yield f"no dark colour for {colour}"
        for colour, below, wanted in sorted(self.pairs):
            ratio = contrast(DARK_INK[colour], DARK_AREA[below]) if below in DARK_AREA else wanted
            if ratio < wanted:
                yield f"in the dark a contrast of {ratio:.1f}, wanted {wanted}: {colour} on {below}"
        for n, (words, size, frames, (x1, y1, x2, y2)) in enumerate(self.texts):
            if size < self.SMALLEST:
                yield f"letters of {size:g}: {words}"
            for a1, b1, a2, b2 in self.boxes:
                if min(x2, a2) - max(x1, a1) > 1 and min(y2, b2) - max(y1, b1) > 1 and (
                        x1 < a1 - 1 or x2 > a2 + 1 or y1 < b1 - 1 or y2 > b2 + 1):
                    yield f"over the border of a box at {a1:.0f}, {b1:.0f}: {words}"
            if x1 < 0 or y1 < 0 or x2 > self.width or y2 > self.height:
                yield f"out of the picture: {words}"
            for other, _, shown, (a1, b1, a2, b2) in self.texts[:n]:
                # Frames may draw the same words again, on an area of another colour.
                together = words != other and (not frames or not shown or frames[0] <= shown[1] and shown[0] <= frames[1])
                if together and min(x2, a2) - max(x1, a1) > 1 and min(y2, b2) - max(y1, b1) > 1:
                    yield f"over another text: {words}; {other}"

    def dark(self):
        """The rules of the dark style for the colours that are there."""
        drawn, rules = "".join(self.parts), []
        for selector, attribute, colours in (("text", "fill", DARK_INK), ("", "stroke", DARK_INK),
                                             ("rect,circle,path", "fill", DARK_AREA), (".m", "fill", DARK_INK)):
            for colour in sorted(set(re.findall(f"{attribute}='(#[0-9a-f]{{6}})'", drawn)) & set(colours)):
                rules.append(",".join(f"{tag}[{attribute}='{colour}']" for tag in selector.split(",")) + f"{{{attribute}:{colours[colour]}}}")
        return f"<style>@media(prefers-color-scheme:dark){{{''.join(rules)}}}</style>"

    def done(self):
        Svg.faults += self.check()
        return "\n".join([self.parts[0], self.dark(), *self.parts[1:], "</svg>"]) + "\n"
