"""Plots of what the benchmarks measured: docs/figures/data/lessonNN.json, written by ./course bench."""
import json
import math
import pathlib

from style import LINE, MUTED, ORANGE, Svg

DATA = pathlib.Path(__file__).resolve().parents[2] / "docs" / "figures" / "data"


def load(name):
    return json.loads((DATA / name).read_text(encoding="utf-8"))


def nice_step(largest, most):
    """A step of 1, 2 or 5 times a power of ten that cuts [0, largest] into at most `most` parts."""
    power = 10 ** math.floor(math.log10(largest / most))
    return next(m * power for m in (1, 2, 5, 10) if largest / (m * power) <= most)


def milliseconds(value):
    return f"{value:,g} ms"


def percent(value):
    return f"{value} %"


def y_axis(svg, left, right, ticks, y_of, words, size=12.5, away=10):
    """A line from left to right for each tick, its words `away` from the line."""
    for tick in ticks:
        svg.line(left, y_of(tick), right, y_of(tick), LINE, 1)
        svg.text(left - away, y_of(tick) + 4, words(tick), size, MUTED, anchor="end")


def x_axis(svg, y, numbers, title, middle, size=12.5):
    """(x, number) below the picture, and below them what they are."""
    for x, number in numbers:
        svg.text(x, y + 22, f"{number:,}", size, MUTED, anchor="middle")
    svg.text(middle, y + 44, title, 13, MUTED, anchor="middle")


def series(svg, points, colour, square=False):
    svg.path(points, colour)
    for x, y in points:
        svg.dot(x, y, colour, square)


def no_cache():
    data = load("lesson01.json")
    points = [(p["length"], 1e3 * p["seconds"]) for p in data["points"]]
    svg = Svg(640, 420, "Time of the next token without a cache grows with the number of tokens so far.")
    svg.panel(8, 8, 624, 404, "Time of the next token, no cache", f"models/tiny, {data['device'].partition(' of ')[0]}")
    left, right, top, bottom = 86, 606, 92, 346
    longest, slowest = points[-1][0], max(y for _, y in points)
    step = nice_step(slowest, 5)
    ceiling = step * math.ceil(slowest / step)
    x_of = lambda n: left + (right - left) * n / longest
    y_of = lambda ms: bottom - (bottom - top) * ms / ceiling
    y_axis(svg, left, right, [i * step for i in range(round(ceiling / step) + 1)], y_of, milliseconds)
    x_axis(svg, bottom, [(x_of(longest * i // 4), longest * i // 4) for i in range(5)], "tokens so far", (left + right) / 2)
    series(svg, [(x_of(n), y_of(ms)) for n, ms in points], ORANGE)
    return svg.done()


FIGURES = {"time_no_cache.svg": no_cache}
