"""Lesson 07: the free queue as a picture, and the hit rates that its benchmark measured."""
from plots import load, percent, series, x_axis, y_axis
from style import BLUE, GREEN, INK, LINE, MUTED, ORANGE, SKY, Svg


def queue():
    svg = Svg(640, 268, "The free queue before and after one request takes a block: the oldest tail goes.")
    svg.panel(8, 8, 624, 252, "The free queue", "A ended first, then B, then C; each freed its tail first")
    rows = [("free", [("A", "tail"), ("A", "head"), ("B", "tail"), ("B", "head"), ("C", "tail"), ("C", "head")], 100),
            ("B is found again and ends", [("A", "tail"), ("A", "head"), ("C", "tail"), ("C", "head"), ("B", "tail"),
                                           ("B", "head")], 194)]
    colour = {"A": SKY, "B": "#f5c9a9", "C": "#bfe3d5"}
    for label, blocks, y in rows:
        svg.text(24, y - 10, label, 13.5, MUTED)
        for i, (name, end) in enumerate(blocks):
            x = 78 + i * 82
            svg.rect(x, y, 66, 46, colour[name], ORANGE if i == 0 else LINE, 6)
            svg.text(x + 33, y + 20, name, 15, INK, 700, "middle")
            svg.text(x + 33, y + 37, end, 12.5, INK, anchor="middle")
            if i < 5:
                svg.line(x + 67, y + 17, x + 80, y + 17, MUTED, 1.4, tip=True)
                svg.line(x + 81, y + 30, x + 68, y + 30, MUTED, 1.4, tip=True)
        svg.text(72, y + 28, "taken", 13, ORANGE, 600, "end")
        svg.text(78 + 6 * 82 - 8, y + 28, "freed", 13, GREEN, 600)
    return svg.done()


def hit_rate():
    rows = load("lesson07.json")["hit_rates"]
    svg = Svg(640, 420, "Hit rate against pool size for a stack and for LRU.")
    svg.panel(8, 8, 624, 404, "Share of the prompt tokens found", "a made-up day of a chat server; blocks of 16")
    left, right, top, bottom = 74, 548, 92, 346
    y_axis(svg, left, right, range(0, 101, 20), lambda share: bottom - (bottom - top) * share / 100, percent)
    x_of = lambda i: left + (right - left) * i / (len(rows) - 1)
    x_axis(svg, bottom, [(x_of(i), row["slots"]) for i, row in enumerate(rows)], "slots in the pool", (left + right) / 2)
    for policy, colour, square in (("LRU", BLUE, False), ("stack", ORANGE, True)):
        points = [(x_of(i), bottom - (bottom - top) * row[policy]) for i, row in enumerate(rows)]
        series(svg, points, colour, square)
        svg.text(points[-1][0] + 14, points[-1][1] + 4, policy, 14, INK, 600)
    return svg.done()


FIGURES = {"lesson07_queue.svg": queue, "lesson07_hit_rate.svg": hit_rate}
