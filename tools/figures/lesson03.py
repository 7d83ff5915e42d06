"""Diagrams of lesson 03: a token's way to its slot, blocks without holes; and the plots of its benchmark."""
import math

from plots import load, milliseconds, nice_step, series
from style import BLUE, EMPTY, FAINT, INK, LINE, MUTED, ORANGE, PAPER, SKY, Svg

A, B = SKY, "#f2b48c"


def translation():
    size, table, token, left = 4, (1, 3, 5), 6, 24
    block, offset = token // size, token % size
    svg = Svg(640, 366, "Token 6 of sequence B is in logical block 1, offset 2; the table names block 3; its slot is 14.",
              "From a token to its slot", "blocks of 4; A took blocks 0, 2, 4 and B blocks 1, 3, 5, in turns")
    cell, step = 38, 4 * 38 + 16  # of a token; from block to block
    for y, words in ((92, "tokens of B"), (178, "block table"), (260, "the pool")):
        svg.text(left, y, words, 13.5, MUTED)
    for t in range(9):
        x = left + t % size * cell + t // size * step
        svg.rect(x, 100, cell - 2, 34, ORANGE if t == token else B)
        svg.text(x + cell / 2 - 1, 122, str(t), 14, "#ffffff" if t == token else INK, 600, "middle")
    for i, block_id in enumerate(table):
        x = left + i * step + 2 * cell - 1
        svg.rect(x - 22, 186, 44, 34, PAPER, ORANGE if i == block else FAINT, 5)
        svg.text(x, 208, str(block_id), 15, ORANGE if i == block else INK, 700, "middle")
    x_token, x_table = left + offset * cell + block * step + cell / 2 - 1, left + block * step + 2 * cell - 1
    svg.path([(x_token, 136), (x_token, 160), (x_table, 160)], ORANGE, 1.8)
    svg.line(x_table, 160, x_table, 183, ORANGE, 1.8, tip=True)
    svg.text(470, 116, f"{token} / {size} = {block}: entry {block}", 14)
    svg.text(470, 140, f"{token} % {size} = {offset}: offset {offset}", 14)
    svg.text(470, 164, f"{table[block]} x {size} + {offset} = slot {table[block] * size + offset}", 14, INK, 700)
    width, apart = 23, 100
    for b in range(6):
        for s in range(size):
            x, hit, held = left + b * apart + s * width, (b, s) == (table[block], offset), s < (4, 4, 4, 4, 2, 1)[b]
            svg.rect(x, 268, width - 2, 34, ORANGE if hit else EMPTY if not held else B if b % 2 else A)
            svg.text(x + width / 2 - 1, 290, str(b * size + s), 13, "#ffffff" if hit else INK if held else MUTED,
                     600 if hit else 400, "middle")
        svg.text(left + b * apart + 2 * width - 1, 319, f"block {b}", 13, MUTED, anchor="middle")
    x_slot = left + table[block] * apart + (offset + 0.5) * width - 1
    svg.path([(x_table, 222), (x_table, 244), (x_slot, 244)], ORANGE, 1.8)
    svg.line(x_slot, 244, x_slot, 265, ORANGE, 1.8, tip=True)
    svg.legend(left, 346, ((A, "holds tokens of A"), (B, "holds tokens of B"), (EMPTY, "tail: reserved, empty")))
    return svg.done()


def no_holes():
    names = "AAAAAAAABBBBBCCCCCCCCDDDDEEEEEEE"
    colours = {"A": BLUE, "B": "#009e73", "C": "#5b6b8c", "D": "#56b4e9", "E": "#8c6bb1", ".": EMPTY, "F": ORANGE}
    freed = "".join("." if n in "BD" else n for n in names)
    # The pool is a stack, and a sequence gives its last block back first: D's four come first, then B's.
    stack = [j for name in "BD" for j in reversed(range(len(names))) if names[j] == name]
    fresh = set(stack[-8:])
    taken = "".join("F" if j in fresh else n for j, n in enumerate(freed))
    svg = Svg(640, 286, "The pool in blocks: the free blocks lie apart, and the next request takes them anyway.",
              "The same requests, in blocks of 128", "32 blocks; each table lists its blocks, wherever they are")
    for i, (words, row) in enumerate((("five requests", names), ("B and D are finished", freed), ("F takes 8 blocks", taken))):
        y, cell = 88 + i * 58, 16.8
        svg.text(24, y, words, 13.5, MUTED)
        for j, name in enumerate(row):
            svg.rect(24 + j * cell, y + 7, cell - 2, 28, colours[name], LINE if name == "." else colours[name], 2)
            if name != ".":
                svg.text(24 + (j + 0.5) * cell - 1, y + 26, name, 12.5, "#ffffff", 600, "middle")
        svg.text(24 + 32 * cell + 6, y + 26, f"{row.count('.')} free", 13.5)
    svg.text(24, 264, "Two pieces serve a request of 1,024 slots: any free block fits.", 14, INK, 700)
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
        for k in range(round(ceiling / step) + 1):
            svg.line(left, y_of(k * step), right, y_of(k * step), LINE, 1)
            svg.text(left - 6, y_of(k * step) + 4, label(round(k * step, 6)), 12, MUTED, anchor="end")
        for n in (1, 4, 16, 64, 256):
            svg.text(x_of(n), bottom + 20, str(n), 12, MUTED, anchor="middle")
        if base is not None:
            svg.line(left, y_of(base), right, y_of(base), INK, 1.5, "5 4")
            svg.text(right, y_of(base) + 17, "flat, no gather", 12, MUTED, anchor="end")
        series(svg, [(x_of(p["block_size"]), y_of(v)) for p, v in zip(points, values)], colour)
        svg.text((left + right) / 2, bottom + 40, "block size", 13, MUTED, anchor="middle")
    return svg.done()


FIGURES = {"lesson03_translation.svg": translation, "lesson03_no_holes.svg": no_holes,
           "lesson03_block_size.svg": block_size}
