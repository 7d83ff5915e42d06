"""Plots of what the benchmarks measured: docs/figures/data/lessonNN.json, written by ./course bench."""
import json
import math
import pathlib

from style import BLUE, INK, LINE, MUTED, ORANGE, Svg

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


def y_axis(svg, left, right, ticks, y_of, words, size=12.5):
    """A line from left to right for each tick."""
    for tick in ticks:
        svg.line(left, y_of(tick), right, y_of(tick), LINE, 1)
        svg.text(left - 10, y_of(tick) + 4, words(tick), size, MUTED, anchor="end")


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


def log_ticks(low, high):
    return [10.0**e for e in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]


def flat_cache():
    data = load("lesson02.json")
    without = [(p["length"], 1e3 * p["no_cache_seconds"]) for p in data["points"]]
    cached = [(p["length"], 1e3 * p["flat_seconds"]) for p in data["points"]]
    svg = Svg(640, 440, "Time of the next token, without a cache and with a flat one, on logarithmic axes.")
    svg.panel(8, 8, 624, 424, "Time of the next token", f"models/tiny, {data['device'].partition(' of ')[0]}; both axes logarithmic")
    left, right, top, bottom = 90, 500, 92, 366
    ticks = log_ticks(min(y for _, y in without + cached), max(y for _, y in without + cached))
    longest = without[-1][0]
    x_of = lambda n: left + (right - left) * math.log2(n) / math.log2(longest)
    y_of = lambda ms: bottom - (bottom - top) * math.log10(ms / ticks[0]) / math.log10(ticks[-1] / ticks[0])
    y_axis(svg, left, right, ticks, y_of, milliseconds)
    x_axis(svg, bottom, [(x_of(n), n) for n, _ in without], "tokens so far", (left + right) / 2)
    for times, colour, square, label in ((without, ORANGE, False, "01 no cache"), (cached, BLUE, True, "02 flat cache")):
        series(svg, [(x_of(n), y_of(ms)) for n, ms in times], colour, square)
        svg.text(x_of(longest) + 14, y_of(times[-1][1]) + 5, label, 14, INK, 600)
    return svg.done()


FIGURES = {"time_no_cache.svg": no_cache, "time_flat_cache.svg": flat_cache}
