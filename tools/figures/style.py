"""The one look of all figures: an SVG builder, colours that colour-blind eyes tell apart, and a dark style
for dark pages. Colours stand in attributes, for programs that read no style sheets."""
import html
import re

INK, MUTED, FAINT = "#1f2933", "#52606d", "#9aa5b1"
PAGE, PAPER, LINE = "#f7f9fb", "#ffffff", "#cbd2d9"
ORANGE, BLUE, SKY, GREEN, EMPTY = "#d55e00", "#0072b2", "#8cc5e8", "#009e73", "#f0f3f5"
# The same colours on a dark page: of letters and lines, and of areas, on which letters lie.
DARK_INK = {INK: "#e8ecf1", MUTED: "#a7b1bd", FAINT: "#6b7683", LINE: "#3a424e", ORANGE: "#ff8a4c", BLUE: "#56b4e9",
            GREEN: "#2bc49a", EMPTY: "#23282f", PAPER: "#ffffff"}
DARK_AREA = {PAGE: "#14171c", PAPER: "#1c2027", LINE: "#3a424e", EMPTY: "#23282f", MUTED: "#a7b1bd", FAINT: "#56606c",
             ORANGE: "#a84a00", BLUE: "#00609a", GREEN: "#007455", SKY: "#1d4f72", "#56b4e9": "#2b6f99",
             "#5b6b8c": "#4a5875", "#5fa9d6": "#2b6f99", "#8c6bb1": "#6b4d90", "#a8a2c4": "#575075", "#cc79a7": "#8f4f74",
             "#f2b48c": "#7a4a2a"}
FONT = "system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif"


def num(x):
    """Shortest form of a coordinate, the same on every machine."""
    return f"{x:.2f}".rstrip("0").rstrip(".")


class Svg:
    def __init__(self, width, height, label):
        self.parts = [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' "
            f"height='{height}' role='img' aria-label='{html.escape(label, quote=True)}' font-family='{FONT}'>",
            "<defs><pattern id='hatch' width='7' height='7' patternUnits='userSpaceOnUse' "
            "patternTransform='rotate(45)'><rect width='7' height='7' fill='#ffffff'/>"
            f"<rect width='3' height='7' fill='{ORANGE}' fill-opacity='0.45'/></pattern>"
            "<marker id='tip' viewBox='0 0 8 8' refX='7' refY='4' markerWidth='7' markerHeight='7' "
            f"orient='auto'><path d='M0 0 L8 4 L0 8 z' fill='{MUTED}'/></marker></defs>",
            f"<rect width='{width}' height='{height}' rx='14' fill='{PAGE}'/>"]

    def add(self, part):
        self.parts.append(part)

    def text(self, x, y, words, size=14, colour=INK, weight=400, anchor="start"):
        self.add(f"<text x='{num(x)}' y='{num(y)}' font-size='{num(size)}' font-weight='{weight}' "
                 f"fill='{colour}' text-anchor='{anchor}'>{html.escape(words)}</text>")

    def rect(self, x, y, width, height, fill, stroke=LINE, radius=3):
        self.add(f"<rect x='{num(x)}' y='{num(y)}' width='{num(width)}' height='{num(height)}' "
                 f"rx='{num(radius)}' fill='{fill}' stroke='{stroke}'/>")

    def panel(self, x, y, width, height, title="", line=""):
        self.add(f"<rect x='{num(x)}' y='{num(y)}' width='{num(width)}' height='{num(height)}' rx='12' "
                 f"fill='{PAPER}' stroke='{LINE}' stroke-width='1.5'/>")
        if title:
            self.text(x + 24, y + 34, title, 17, weight=700)
        if line:
            self.text(x + 24, y + 57, line, 13.5, MUTED)

    def line(self, x1, y1, x2, y2, colour=LINE, width=1.5, dash="", tip=False):
        extra = (f" stroke-dasharray='{dash}'" if dash else "") + (" marker-end='url(#tip)'" if tip else "")
        self.add(f"<line x1='{num(x1)}' y1='{num(y1)}' x2='{num(x2)}' y2='{num(y2)}' stroke='{colour}' "
                 f"stroke-width='{num(width)}'{extra}/>")

    def path(self, points, colour, width=2.5):
        d = " ".join(("M" if i == 0 else "L") + f"{num(x)} {num(y)}" for i, (x, y) in enumerate(points))
        self.add(f"<path d='{d}' fill='none' stroke='{colour}' stroke-width='{num(width)}' "
                 "stroke-linejoin='round'/>")

    def dot(self, x, y, colour, square=False):
        if square:
            self.rect(x - 4.5, y - 4.5, 9, 9, colour, colour, 1)
        else:
            self.add(f"<circle cx='{num(x)}' cy='{num(y)}' r='5' fill='{colour}'/>")

    def brace(self, x1, x2, y, words, size=12.5, up=False):
        """A bracket under (or over) a stretch, with words at its middle."""
        end = y - 7 if up else y + 7
        self.path([(x1, y), (x1, end), (x2, end), (x2, y)], FAINT, 1.3)
        self.text((x1 + x2) / 2, end - 7 if up else end + 16, words, size, MUTED, anchor="middle")

    def legend(self, x, y, entries):
        """(fill, words, width of this entry) from left to right."""
        for fill, words, width in entries:
            self.rect(x, y - 13, 16, 16, fill)
            self.text(x + 24, y, words, 13.5, MUTED)
            x += width

    def dark(self):
        """The rules of the dark style for the colours that are there."""
        drawn, rules = "".join(self.parts), []
        for selector, attribute, colours in (("text", "fill", DARK_INK), ("", "stroke", DARK_INK),
                                             ("rect,circle,path", "fill", DARK_AREA)):
            for colour in sorted(set(re.findall(f"{attribute}='(#[0-9a-f]{{6}})'", drawn))):
                # A light colour of one figure alone becomes a shade of the page.
                dark = colours.get(colour) or f"#{''.join(f'{int(colour[i:i + 2], 16) // 3:02x}' for i in (1, 3, 5))}"
                rules.append(",".join(f"{tag}[{attribute}='{colour}']" for tag in selector.split(",")) + f"{{{attribute}:{dark}}}")
        return f"<style>@media(prefers-color-scheme:dark){{{''.join(rules)}}}</style>"

    def done(self):
        return "\n".join([self.parts[0], self.dark(), *self.parts[1:], "</svg>"]) + "\n"
