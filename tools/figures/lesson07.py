"""Lesson 07: the hit rates that its benchmark measured."""
from plots import load, percent, series, x_axis, y_axis
from style import BLUE, INK, ORANGE, Svg


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


FIGURES = {"lesson07_hit_rate.svg": hit_rate}
