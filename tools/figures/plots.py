"""Plots of what the benchmarks measured: docs/figures/data, written by ./course bench."""
import json
import math
import pathlib

from style import BLUE, FAINT, GREEN, INK, LINE, MUTED, ORANGE, SKY, Svg

DATA = pathlib.Path(__file__).resolve().parents[2] / "docs" / "figures" / "data"
ROAD = (ORANGE, BLUE, GREEN, SKY, FAINT)  # of its cases


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


def x_axis(svg, y, numbers, title, middle):
    """(x, number) below the picture, and below them what they are."""
    for x, number in numbers:
        svg.text(x, y + 22, f"{number:,}", 12.5, MUTED, anchor="middle")
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


def block_size():
    data = load("lesson03.json")
    points = data["points"]
    svg = Svg(640, 366, "Waste, table size and time against block sizes from 1 to 256.", "What the block size costs",
              f"models/tiny, {data['device'].partition(' of ')[0]}; sequences of up to {data['length']:,} tokens")
    charts = (
        (("waste", "in tails"), [100 * p["wasted_slots"] / p["slots"] for p in points], None, lambda v: f"{v:g} %", ORANGE),
        (("bytes of", "a block table"), [p["table_bytes"] for p in points], None, lambda v: f"{v:,.0f}", BLUE),
        (("time of a step,", "gather included"), [1e3 * p["step_seconds"] for p in points],
         1e3 * data["flat_step_seconds"], milliseconds, "#009e73"),
    )
    for i, (title, values, base, label, colour) in enumerate(charts):
        left, top, bottom = 66 + i * 204, 142, 304
        right = left + 136
        step = nice_step(max(values + [base or 0]), 5)
        ceiling = step * math.ceil(max(values + [base or 0]) / step)
        x_of = lambda n: left + (right - left) * math.log2(n) / 8
        y_of = lambda v: bottom - (bottom - top) * v / ceiling
        for line in range(2):
            svg.text(left - 42, 104 + 18 * line, title[line], 13.5, INK, 600)
        ticks = [round(k * step, 6) for k in range(round(ceiling / step) + 1)]
        y_axis(svg, left, right, ticks, y_of, label, 12, 6)
        for n in (1, 4, 16, 64, 256):
            svg.text(x_of(n), bottom + 20, str(n), 12, MUTED, anchor="middle")
        if base is not None:
            svg.line(left, y_of(base), right, y_of(base), INK, 1.5, "5 4")
            svg.text(right, y_of(base) + 17, "flat, no gather", 12, MUTED, anchor="end")
        series(svg, [(x_of(p["block_size"]), y_of(v)) for p, v in zip(points, values)], colour)
        svg.text((left + right) / 2, bottom + 40, "block size", 13, MUTED, anchor="middle")
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


def books():
    rows = load("lesson08.json")["books"]
    row_height, top, left, right = 30, 92, 300, 570
    height = top + row_height * len(rows) + 46
    svg = Svg(640, height, "Nanoseconds of the scheduler's books for each block, or for each request and pass.")
    svg.panel(8, 8, 624, height - 16, "What the books cost", "nanoseconds for each block; the last one: for each request and pass")
    largest = max(row["nanoseconds"] for row in rows)
    step = 10 if largest <= 60 else 20 if largest <= 120 else 50
    x_of = lambda ns: left + (right - left) * ns / (step * -(-largest // step))
    bottom = top + row_height * len(rows)
    for tick in range(0, int(step * -(-largest // step)) + 1, step):
        svg.line(x_of(tick), top - 6, x_of(tick), bottom, LINE, 1)
        svg.text(x_of(tick), bottom + 18, f"{tick}", 12.5, MUTED, anchor="middle")
    for i, row in enumerate(rows):
        y = top + i * row_height
        svg.text(left - 14, y + 15, row["what"], 13.5, INK, anchor="end")
        fill = BLUE if row["of"] != "block" else SKY
        svg.rect(left, y + 3, max(x_of(row["nanoseconds"]) - left, 1), 17, fill)
        svg.text(x_of(row["nanoseconds"]) + 8, y + 16, f"{row['nanoseconds']:.1f}", 12.5, MUTED)
    return svg.done()


def road(name, title, legend):
    """Each step's share of the floor, a line for each case."""
    data = load(f"{name}.json")
    steps = data["steps"]
    left, right, top, bottom = 70, 614, 134, 394
    svg = Svg(640, 470 + 20 * len(steps), f"{title}: each step's share of the floor.")
    svg.panel(8, 8, 624, 454 + 20 * len(steps), title, f"share of {legend}, {data['device']}")
    x_of = lambda i: left + 30 + (right - left - 60) * i / (len(steps) - 1)
    y_of = lambda share: bottom - (bottom - top) * min(share, 1)
    for percent in range(0, 101, 20):
        y = y_of(percent / 100)
        svg.line(left, y, right, y, LINE if percent else MUTED, 1)
        svg.text(left - 10, y + 4, f"{percent} %", 12.5, MUTED, anchor="end")
    for i, step in enumerate(steps):
        svg.text(x_of(i), bottom + 24, str(i + 1), 14, INK, 600, "middle")
        svg.text(left, bottom + 52 + 20 * i, f"{i + 1}  {step['idea']}", 13.5, MUTED)
    at = 24
    places = [[(x_of(i), y_of(case["floor_seconds"] / step["seconds"][j])) if step["seconds"][j] > 0 else None
               for i, step in enumerate(steps)] for j, case in enumerate(data["cases"])]

    def covered(j, i):
        """Whether a later line goes through the same place."""
        return any(line[i] and abs(line[i][1] - places[j][i][1]) < 4 for line in places[j + 1:])

    for j, case in enumerate(data["cases"]):
        colour, square = ROAD[j], j % 2 == 1
        runs = [[]]  # a step that cannot serve the case breaks the line
        for i, place in enumerate(places[j]):
            if place:
                runs[-1].append((i, place))
            elif runs[-1]:
                runs.append([])
        for run in runs:
            if len(run) > 1:
                svg.path([place for _, place in run], colour)
            for (i, start), (k, end) in zip(run, run[1:]):
                if covered(j, i) and covered(j, k):  # wider, to be seen on both sides of the other line
                    svg.path([start, end], colour, 7)
            for i, (x, y) in run:
                svg.dot(x, y, colour, square, 7.5 if covered(j, i) else 5)
        svg.dot(at + 5, top - 26, colour, square)
        at = svg.text(at + 16, top - 21, case["case"], 13.5, INK) + 20
    return svg.done()


FIGURES = {
    "time_no_cache.svg": no_cache, "lesson03_block_size.svg": block_size, "lesson07_hit_rate.svg": hit_rate,
    "lesson08_books.svg": books,
    "lesson04_road.svg": lambda: road("lesson04_road", "The road of paged attention", "a plain read of the same K and V"),
    "kernels_road.svg": lambda: road("kernels_road", "The road of the matrix product",
                                     "a plain read of the weights (few rows), of the tensor cores' peak (2,048)")}
