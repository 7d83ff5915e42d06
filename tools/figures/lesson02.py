"""Diagrams of lesson 02: an append, the grid of a kernel."""
from style import BLUE, EMPTY, INK, MUTED, ORANGE, PAPER, SKY, Svg


def append_row():
    svg = Svg(640, 350, "A decode step writes one row of K and V at the position, layer by layer; the position moves "
                        "after the last layer; attention reads all rows up to it.",
              "One decode step of one sequence", "a slab of 12 slots, 7 tokens computed, the eighth on its way")
    left, size, step, new = 168, 34, 37.4, 106
    at = left + 7 * step
    for layer, name in enumerate(("layer 0", "layer 1", "last layer")):
        y = 96 + layer * 58
        svg.text(24, y + 22, name, 13.5, MUTED)
        svg.rect(new, y, size, size, ORANGE)
        svg.text(new + size / 2, y + 22, "k, v", 13, "#ffffff", 600, "middle")
        for slot in range(12):
            svg.rect(left + slot * step, y, size, size, SKY if slot < 7 else ORANGE if slot == 7 else EMPTY)
            svg.text(left + slot * step + size / 2, y + 22, str(slot), 13,
                     "#ffffff" if slot == 7 else MUTED if slot > 7 else INK, anchor="middle")
        svg.path([(new + size / 2, y - 3), (new + size / 2, y - 10), (at + size / 2, y - 10)], MUTED, 1.3)
        svg.line(at + size / 2, y - 10, at + size / 2, y - 2, MUTED, 1.3, tip=True)
    svg.line(at - 2, 80, at - 2, 254, INK, 2, "5 4")
    svg.text(at - 8, 272, "position 7 during the pass", 13.5, INK, 600, "end")
    svg.line(at - 2, 268, at + step - 4, 268, INK, 2, tip=True)
    svg.text(at + step + 4, 272, "8 at its end", 13.5, INK, 600)
    svg.legend(24, 304, ((SKY, "computed before, only read"), (ORANGE, "written by this pass, then read"),
                         (EMPTY, "reserved, never read")))
    return svg.done()


def decode_grid():
    svg = Svg(640, 452, "The grid of decode_attention: a warp for each row, head and sequence. Warps of rows that a shorter "
                        "sequence does not have leave at once; the others read their slab from slot 0 to their own token.",
              "Which warp does what", "a pass of three sequences, 4 query heads, 2 KV heads")
    left, cell, slots_left, slot = 160, 24, 256, 30
    for x, *words in ((110, "a warp for each", "row and head"), (slots_left, "the sequence's slab:",
                                                                "one head of K and V is read")):
        for line in range(2):
            svg.text(x, 90 + 17 * line, words[line], 13, MUTED)
    for index, (name, rows, tokens) in enumerate((("A", 1, 9), ("B", 3, 7), ("C", 1, 4))):  # rows of the pass, tokens
        y = 118 + 92 * index
        svg.text(24, y + 24, name, 16, INK, 700)
        svg.text(24, y + 44, "rows: tokens" if rows > 1 else "row: token", 13, MUTED)
        svg.text(24, y + 62, ", ".join(str(t) for t in range(tokens - rows, tokens)), 13.5, INK, 600)
        for head in range(4):
            if index == 0:
                svg.text(left - 6, y + 14 + 20 * head, f"head {head}", 12, MUTED, anchor="end")
            for row in range(3):
                fill = EMPTY if row >= rows else ORANGE if (name, row, head) == ("B", 1, 2) else (SKY, BLUE)[head // 2]
                svg.rect(left + row * (cell + 3), y + 20 * head, cell, 17, fill)
        for t in range(12):
            seen = name == "B" and t <= tokens - rows + 1
            svg.rect(slots_left + t * slot, y + 22, slot - 2, 34, ORANGE if seen else SKY if t < tokens else PAPER)
            svg.text(slots_left + t * slot + slot / 2 - 1, y + 44, str(t) if t < tokens else "", 13,
                     "#ffffff" if seen else INK, anchor="middle")
    svg.legend(24, 408, ((SKY, "heads 0, 1: KV head 0"), (BLUE, "heads 2, 3: KV head 1"),
                         (EMPTY, "no such row: ends at once"), (ORANGE, "row 1 of B, head 2")))
    return svg.done()


FIGURES = {"append_row.svg": append_row, "decode_grid.svg": decode_grid}
