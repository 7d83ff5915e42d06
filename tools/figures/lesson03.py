"""Lesson 03: what the block size costs, as its benchmark measured it."""
import math

from plots import load, milliseconds, nice_step, series, y_axis
from style import BLUE, INK, MUTED, ORANGE, Svg


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


FIGURES = {"lesson03_block_size.svg": block_size}
