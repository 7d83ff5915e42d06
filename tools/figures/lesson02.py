"""Diagrams of lesson 02: an append, slabs and their waste, holes."""
from style import BLUE, EMPTY, FAINT, GREEN, INK, LINE, MUTED, ORANGE, PAPER, SKY, Svg


def append_row():
    svg = Svg(920, 386, "A decode step writes one row of K and V at the position, layer by layer; the position moves "
                        "after the last layer; attention reads all rows up to it.")
    svg.panel(20, 20, 880, 346, "One decode step of one sequence", "a slab of 12 slots, 7 tokens computed, the eighth on its way")
    left, size, gap, layers = 236, 38, 6, 3
    for layer in range(layers):
        y = 118 + layer * 64
        svg.text(44, y + 24, ("layer 0", "layer 1", "last layer")[layer], 13, MUTED)
        svg.rect(130, y, size, size, ORANGE)
        svg.text(130 + size / 2, y + 24, "k, v", 12, "#ffffff", 600, "middle")
        for slot in range(12):
            fill = SKY if slot < 7 else ORANGE if slot == 7 else EMPTY
            svg.rect(left + slot * (size + gap), y, size, size, fill)
            svg.text(left + slot * (size + gap) + size / 2, y + 24, str(slot), 12,
                     "#ffffff" if slot == 7 else MUTED if slot > 7 else INK, anchor="middle")
        x = left + 7 * (size + gap) + size / 2
        svg.path([(130 + size / 2, y - 3), (130 + size / 2, y - 10), (x, y - 10)], MUTED, 1.3)
        svg.line(x, y - 10, x, y - 2, MUTED, 1.3, tip=True)
    y = 118 + layers * 64
    x = left + 7 * (size + gap) - gap / 2
    svg.line(x, 98, x, y - 18, INK, 2, "5 4")
    svg.text(x - 6, y + 4, "position 7 during the pass", 13, INK, 600, "end")
    svg.line(x, y, x + size + gap - 4, y, INK, 2, tip=True)
    svg.text(x + size + gap + 6, y + 4, "8 once the last layer is done", 13, INK, 600)
    svg.legend(60, 346, ((SKY, "computed before, only read", 250), (ORANGE, "written by this pass, then read", 290),
                          (EMPTY, "reserved, never read", 0)))
    return svg.done()


def slabs():
    used, reserved = (1024, 512, 200, 512), 1024
    total, waste = reserved * len(used), reserved * len(used) - sum(used)
    mib = 114688 / 2**20
    svg = Svg(920, 388, "Four slabs of 1,024 slots hold 1,024, 512, 200 and 512 tokens: 45.1 percent is wasted.")
    svg.panel(20, 20, 880, 348, "Four sequences, four slabs of 1,024 slots",
              "Qwen3-0.6B, 16-bit KV, 112 KiB per token")
    left, width = 150, 560
    for i, tokens in enumerate(used):
        y = 96 + i * 46
        svg.text(44, y + 22, f"sequence {i}", 13, MUTED)
        svg.rect(left, y, width, 32, "url(#hatch)")
        svg.rect(left, y, width * tokens / reserved, 32, BLUE, BLUE)
        svg.text(left + 10, y + 21, f"{tokens:,} used", 12.5, "#ffffff", 600)
        svg.text(left + width + 16, y + 21, f"{100 * (reserved - tokens) / reserved:.1f} % wasted", 13, INK)
    svg.text(44, 302, f"{waste:,} of {total:,} slots are never written: {100 * waste / total:.1f} %, "
                      f"{waste * mib:.0f} of {total * mib:.0f} MiB.", 15, INK, 700)
    svg.legend(44, 342, ((BLUE, "used", 90), ("url(#hatch)", "reserved and wasted", 0)))
    return svg.done()


def holes():
    capacity, left, width = 4096, 236, 470
    sizes = {"A": 1024, "B": 640, "C": 1024, "D": 512, "E": 896}
    colours = {"A": BLUE, "B": GREEN, "C": "#5b6b8c", "D": "#56b4e9", "E": "#8c6bb1"}
    begins, at = {}, 0
    for name, size in sizes.items():
        begins[name], at = at, at + size
    svg = Svg(920, 352, "Five reservations fill the range; two end; 1,152 slots are free, but no hole has 1,024.")
    svg.panel(20, 20, 880, 312, "Reservations of just the right size", "4,096 token slots, first fit")
    rows = (("five requests, no slot free", "ABCDE"), ("B is finished", "ACDE"), ("D is finished", "ACE"))
    for i, (words, live) in enumerate(rows):
        y = 98 + i * 46
        svg.text(44, y + 21, words, 13, MUTED)
        svg.rect(left, y, width, 32, PAPER, FAINT, 2)
        for name in live:
            x = left + width * begins[name] / capacity
            svg.rect(x, y, width * sizes[name] / capacity, 32, colours[name], PAPER, 2)
            svg.text(x + width * sizes[name] / capacity / 2, y + 21, f"{name} {sizes[name]:,}", 12, "#ffffff", 600,
                     "middle")
        for name in sizes:
            if name not in live:
                x = left + width * (begins[name] + sizes[name] / 2) / capacity
                svg.text(x, y + 21, f"{sizes[name]}", 12, MUTED, anchor="middle")
        free = sum(size for name, size in sizes.items() if name not in live)
        svg.text(left + width + 16, y + 21, f"{free:,} free", 13, INK)
    y = 98 + 3 * 46
    svg.text(44, y + 21, "F asks for 1,024", 13, MUTED)
    svg.rect(left, y, width * 1024 / capacity, 32, "url(#hatch)", ORANGE, 2)
    svg.text(left + width * 512 / capacity, y + 21, "F 1,024", 12, INK, 700, "middle")
    svg.text(left + width * 1024 / capacity + 14, y + 21, "fits in no hole: the largest has 640.", 13, INK, 600)
    svg.text(44, 308, "Memory is free, and useless: external fragmentation.", 14, INK, 700)
    return svg.done()


def decode_grid():
    svg = Svg(920, 460, "The grid of decode_attention: a warp for each row, head and sequence. Warps of rows that a shorter "
                        "sequence does not have leave at once; the others read their slab from slot 0 to their own token.")
    svg.panel(20, 20, 880, 420, "Which warp does what", "a pass of three sequences, 4 query heads, 2 KV heads")
    sequences = (("A", 1, 9), ("B", 3, 7), ("C", 1, 4))  # name, rows of the pass, tokens
    most, cell, left, slots_left, slot = 3, 26, 150, 420, 34
    svg.text(left, 100, "a warp for each row and head", 12.5, MUTED)
    svg.text(slots_left, 100, "the sequence's slab: one head of K and V is read", 12.5, MUTED)
    for index, (name, rows, tokens) in enumerate(sequences):
        y = 112 + 100 * index
        svg.text(44, y + 36, name, 16, INK, 700)
        svg.text(44, y + 54, f"{rows} row{'s' * (rows > 1)}", 12.5, MUTED)
        for head in range(4):
            if index == 0:
                svg.text(left - 8, y + 15 + 21 * head, f"head {head}", 10.5, MUTED, anchor="end")
            for row in range(most):
                marked = (name, row, head) == ("B", 1, 2)
                fill = EMPTY if row >= rows else ORANGE if marked else (SKY, BLUE)[head // 2]
                svg.rect(left + row * (cell + 4), y + 21 * head, cell, 18, fill)
        svg.text(left + most * (cell + 4) + 10, y + 36, "rows are tokens" if rows > 1 else "the row is token", 12, MUTED)
        svg.text(left + most * (cell + 4) + 10, y + 53, " ".join(str(t) for t in range(tokens - rows, tokens)), 13, INK, 600)
        for t in range(12):
            seen = name == "B" and t <= tokens - rows + 1
            fill = ORANGE if seen else SKY if t < tokens else PAPER
            svg.rect(slots_left + t * (slot + 2), y + 22, slot, 34, fill)
            svg.text(slots_left + t * (slot + 2) + slot / 2, y + 44, str(t) if t < tokens else "", 12,
                     "#ffffff" if seen else INK, anchor="middle")
    svg.legend(44, 420, ((SKY, "heads 0, 1: KV head 0", 210), (BLUE, "heads 2, 3: KV head 1", 210),
                         (EMPTY, "no such row: ends at once", 230), (ORANGE, "row 1 of B, head 2", 140)))
    return svg.done()


FIGURES = {"append_row.svg": append_row, "decode_grid.svg": decode_grid, "slabs.svg": slabs, "holes.svg": holes}
