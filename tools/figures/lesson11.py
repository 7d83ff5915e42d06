"""Lesson 11: two pools, and the copies that the second has of the first; and when a copy is worth its way."""
import math

from plots import load, milliseconds, series, y_axis
from style import BLUE, EMPTY, GREEN, INK, LINE, MUTED, ORANGE, SKY, Svg

CELL, GAP = 44, 8


def floors():
    """The device is about to evict a2 and a1. Letters are prompts, numbers their blocks."""
    pools = [("device", "6 blocks", ["a2", "a1", "a0", "e0", "c1", "c0"], 2, 3),
             ("host", "9 blocks", ["b2", "b1", "b0", "d1", "d0", "e0", "a2", "a1", ""], 0, 0)]
    svg = Svg(640, 356, "Two pools one below the other, each a queue. The two blocks at the front of the device's queue have "
              "copies in the host's pool. Block e0 was loaded from the host to the device, and the host still has it.")
    svg.panel(8, 8, 624, 340, "What the device overwrites next has a copy in the host",
              "each row is a queue: the block on the left will be overwritten first; a0 is block 0 of prompt a")
    left, place = 122, {}
    for row, (name, words, blocks, num_ahead, num_held) in enumerate(pools):
        y = 118 + row * 104
        svg.text(left - 14, y + 20, name, 14, INK, 600, "end")
        svg.text(left - 14, y + 38, words, 12, MUTED, anchor="end")
        for i, block in enumerate(blocks):
            x = left + i * (CELL + GAP)
            held = block and i >= len(blocks) - num_held
            svg.rect(x, y, CELL, CELL, SKY if held else "#bfe3d5" if block else EMPTY, ORANGE if i < num_ahead else LINE)
            svg.text(x + CELL / 2, y + 27, block, 14, INK, 600 if held else 400, "middle")
            place[name, block] = (x + CELL / 2, y)
    svg.text(left, 110, "overwritten next", 12.5, ORANGE, 600)
    for block in ("a2", "a1"):
        (x, y), (to, below) = place["device", block], place["host", block]
        svg.line(x, y + CELL + 3, to, below - 4, MUTED, 1.5, tip=True)
    (x, y), (to, above) = place["host", "e0"], place["device", "e0"]
    svg.line(x, y - 3, to, above + CELL + 4, GREEN, 2.5, tip=True)
    svg.text(to + 40, above + CELL + 17, "loaded", 12.5, GREEN, 600)
    svg.text(left - 14, above + CELL + 34, "copies", 12.5, MUTED, anchor="end")
    svg.legend(28, 320, [(SKY, "held by a request"), ("#bfe3d5", "free, and can still be found"), (EMPTY, "free")])
    return svg.done()


def crossing():
    """On two devices."""
    svg = Svg(640, 760, "Time to compute tokens of a prompt, and to load their blocks from the host's memory. "
              "On the GPU and on the CPU loading stays below computing.")
    svg.panel(8, 8, 624, 744, "Recompute or load", "Qwen3-0.6B's shape, blocks of 16; tokens of a prompt in one pass, or their blocks; "
              "both axes logarithmic")
    left, right = 84, 424
    for which, top in (("cuda", 122), ("cpu", 458)):
        data = load(f"lesson11_crossing_{which}.json")
        rows, bottom = data["crossing"], top + 232
        context = f"{rows[0]['context']:,}"
        lines = [("compute_after_context_seconds", ORANGE, True, f"computed after {context}"), ("compute_seconds", ORANGE, False, "computed"),
                 ("host_seconds", BLUE, False, "from the host")]
        values = [1e3 * row[key] for row in rows for key, *_ in lines]
        powers = range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
        ticks, longest = [10.0**power for power in powers], rows[-1]["tokens"]
        x_of = lambda n: left + (right - left) * math.log2(n / 16) / math.log2(longest / 16)
        y_of = lambda ms: bottom - (bottom - top) * math.log10(ms / ticks[0]) / math.log10(ticks[-1] / ticks[0])
        svg.text(left, top - 16, data["device"], 13, INK, 600)
        y_axis(svg, left, right, ticks, y_of, milliseconds, 12, 8)
        for row in rows:
            svg.text(x_of(row["tokens"]), bottom + 20, f"{row['tokens']:,}", 12, MUTED, anchor="middle")
        for key, colour, square, label in lines:
            points = [(x_of(row["tokens"]), y_of(1e3 * row[key])) for row in rows]
            series(svg, points, colour, square)
        y = 0
        for end, label in sorted((y_of(1e3 * rows[-1][key]), label) for key, _, _, label in lines):
            y = max(end + 4, y + 14)  # no label on another one
            svg.text(right + 10, y, label, 12.5, INK)
        svg.text((left + right) / 2, bottom + 42, "tokens", 12.5, MUTED, anchor="middle")
    return svg.done()


FIGURES = {"lesson11_floors.svg": floors, "lesson11_crossing.svg": crossing}
