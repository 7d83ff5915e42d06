"""Diagrams of lesson 03: a token's way to its slot, blocks without holes; and the plots of its benchmark."""
import math

from plots import load, milliseconds, nice_step
from style import BLUE, EMPTY, FAINT, INK, LINE, MUTED, ORANGE, PAPER, SKY, Svg

A, B = SKY, "#f2b48c"


def translation():
    size, table, token = 4, (1, 3, 5), 6
    block, offset = token // size, token % size
    svg = Svg(920, 396, "Token 6 of sequence B is in logical block 1, offset 2; the table names block 3; its slot is 14.")
    svg.panel(20, 20, 880, 356, "From a token to its slot", "blocks of 4; sequence A took blocks 0, 2, 4, sequence B blocks "
              "1, 3, 5, in turns")
    left, cell = 150, 40
    svg.text(44, 128, "tokens of B", 13, MUTED)
    for t in range(9):
        x = left + t * cell + t // size * 26
        svg.rect(x, 104, cell - 2, 36, ORANGE if t == token else B)
        svg.text(x + cell / 2 - 1, 127, str(t), 14, "#ffffff" if t == token else INK, 600, "middle")
    svg.text(44, 214, "block table", 13, MUTED)
    for i, block_id in enumerate(table):
        x = left + i * (size * cell + 26) + size * cell / 2 - 22
        svg.rect(x, 190, 44, 36, PAPER, ORANGE if i == block else FAINT, 5)
        svg.text(x + 22, 213, str(block_id), 15, ORANGE if i == block else INK, 700, "middle")
    x_token = left + token * cell + block * 26 + cell / 2 - 1
    x_table = left + block * (size * cell + 26) + size * cell / 2
    svg.path([(x_token, 142), (x_token, 166), (x_table, 166)], ORANGE, 1.8)
    svg.line(x_table, 166, x_table, 187, ORANGE, 1.8, tip=True)
    svg.text(650, 160, f"{token} / {size} = {block}: entry {block} of the table", 13.5)
    svg.text(650, 184, f"{token} % {size} = {offset}: offset {offset} in that block", 13.5)
    svg.text(650, 208, f"slot = {table[block]} x {size} + {offset} = {table[block] * size + offset}", 13.5, INK, 700)
    svg.text(44, 302, "the pool", 13, MUTED)
    width = 27
    for b in range(6):
        owner = A if b % 2 == 0 else B
        held = (4, 4, 4, 4, 2, 1)[b]
        for s in range(size):
            x = left + (b * size + s) * width + b * 10
            hit = b == table[block] and s == offset
            svg.rect(x, 278, width - 2, 36, ORANGE if hit else owner if s < held else EMPTY)
            svg.text(x + width / 2 - 1, 301, str(b * size + s), 11.5, "#ffffff" if hit else INK if s < held else FAINT,
                     600 if hit else 400, "middle")
        svg.text(left + b * (size * width + 10) + size * width / 2, 332, f"block {b}", 12, MUTED, anchor="middle")
    x_slot = left + (table[block] * size + offset) * width + table[block] * 10 + width / 2 - 1
    svg.path([(x_table, 228), (x_table, 252), (x_slot, 252)], ORANGE, 1.8)
    svg.line(x_slot, 252, x_slot, 275, ORANGE, 1.8, tip=True)
    svg.legend(150, 362, ((A, "holds tokens of A", 180), (B, "holds tokens of B", 180), (EMPTY, "tail: reserved, empty", 0)))
    return svg.done()


def no_holes():
    names = "AAAAAAAABBBBBCCCCCCCCDDDDEEEEEEE"
    colours = {"A": BLUE, "B": "#009e73", "C": "#5b6b8c", "D": "#56b4e9", "E": "#8c6bb1", ".": EMPTY, "F": ORANGE}
    freed = "".join("." if n in "BD" else n for n in names)
    # The pool is a stack, and a sequence gives its last block back first: D's four come first, then B's.
    stack = [j for name in "BD" for j in reversed(range(len(names))) if names[j] == name]
    fresh = set(stack[-8:])
    taken = "".join("F" if j in fresh else n for j, n in enumerate(freed))
    rows = (("five requests", names), ("B and D are finished", freed), ("F takes 8 blocks", taken))
    svg = Svg(920, 290, "The pool in blocks: the free blocks lie apart, and the next request takes them anyway.")
    svg.panel(20, 20, 880, 250, "The same requests, in blocks of 128", "32 blocks; each table lists its blocks, wherever "
              "they are")
    left, cell = 220, 18.5
    for i, (words, row) in enumerate(rows):
        y = 96 + i * 48
        svg.text(44, y + 21, words, 13, MUTED)
        for j, name in enumerate(row):
            svg.rect(left + j * cell, y, cell - 2, 32, colours[name], LINE if name == "." else colours[name], 2)
            if name != ".":
                svg.text(left + j * cell + cell / 2 - 1, y + 21, name, 11.5, "#ffffff", 600, "middle")
        free = row.count(".")
        svg.text(left + 32 * cell + 8, y + 21, f"{free} free", 13, INK)
    svg.text(44, 252, "1,024 slots in two pieces serve a request of 1,024: a block fits wherever a block is free.", 14, INK,
             700)
    return svg.done()


def block_size():
    data = load("lesson03.json")
    if data is None:
        return None
    points = data["points"]
    svg = Svg(920, 430, "Waste, table size and time against block sizes from 1 to 256.")
    svg.panel(20, 20, 880, 390, "What the block size costs",
              f"models/tiny, {data['device']}; sequences of up to {data['length']:,} tokens")
    charts = (
        ("waste in tails", [100 * p["wasted_slots"] / p["slots"] for p in points], None, lambda v: f"{v:g} %", ORANGE),
        ("bytes of a block table", [p["table_bytes"] for p in points], None, lambda v: f"{v:,.0f}", BLUE),
        ("time of a step, gather included", [1e3 * p["step_seconds"] for p in points], 1e3 * data["flat_step_seconds"],
         milliseconds, "#009e73"),
    )
    for i, (title, values, base, label, colour) in enumerate(charts):
        left = 92 + i * 284
        right, top, bottom = left + 196, 130, 330
        step = nice_step(max(values + [base or 0]), 5)
        ceiling = step * math.ceil(max(values + [base or 0]) / step)
        x_of = lambda n: left + (right - left) * math.log2(n) / 8
        y_of = lambda v: bottom - (bottom - top) * v / ceiling
        svg.text(left - 42, 108, title, 13.5, INK, 600)
        for k in range(round(ceiling / step) + 1):
            svg.line(left, y_of(k * step), right, y_of(k * step), LINE, 1)
            svg.text(left - 8, y_of(k * step) + 4, label(round(k * step, 6)), 11.5, MUTED, anchor="end")
        for n in (1, 4, 16, 64, 256):
            svg.text(x_of(n), bottom + 20, str(n), 12, MUTED, anchor="middle")
        if base is not None:
            svg.line(left, y_of(base), right, y_of(base), INK, 1.5, "5 4")
            svg.text(right, y_of(base) + 17, "flat cache, no gather", 11.5, MUTED, anchor="end")
        svg.path([(x_of(p["block_size"]), y_of(v)) for p, v in zip(points, values)], colour)
        for p, v in zip(points, values):
            svg.dot(x_of(p["block_size"]), y_of(v), colour)
        svg.text((left + right) / 2, bottom + 44, "block size", 12.5, MUTED, anchor="middle")
    return svg.done()


FIGURES = {"lesson03_translation.svg": translation, "lesson03_no_holes.svg": no_holes,
           "lesson03_block_size.svg": block_size}
