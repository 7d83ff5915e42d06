"""The picture of the top README: what each lesson does with K and V, in a small panel each."""
from style import BLUE, EMPTY, GREEN, INK, MUTED, ORANGE, SKY, Svg

WIDTH, HEIGHT, GAP = 197, 178, 12
CELL, STEP = 13, 16  # a token's slot, and from one to the next
PINK, SHARED = "#cc79a7", "#a8a2c4"


def row(svg, x, y, fills):
    for i, fill in enumerate(fills):
        if fill:
            svg.rect(x + i * STEP, y, CELL, CELL, fill)


def no_cache(svg, x, y):
    for step in range(5):
        row(svg, x, y + step * 20, [ORANGE] * (4 + step))
    return "every row, in every step"


def flat_cache(svg, x, y):
    for i, used in enumerate([7, 3, 9, 2, 5]):
        row(svg, x, y + i * 20, [SKY] * (used - 1) + [ORANGE] + [EMPTY] * (10 - used))
    return "slabs, with holes"


def block(svg, x, y, fill, used=4):
    for i in range(4):
        svg.rect(x + i * 9, y, 8, CELL, fill if i < used else EMPTY, radius=1)


PLACES = [(54 + 42 * (i % 3), 22 * (i // 3)) for i in range(12)]


def pool(svg, x, y, owners):
    """owners: {place: (colour, slots used)}"""
    for place, (dx, dy) in enumerate(PLACES):
        fill, used = owners.get(place, (EMPTY, 0))
        block(svg, x + dx, y + dy, fill, used)


def paged_blocks(svg, x, y):
    pool(svg, x, y, {1: (SKY, 4), 5: (SKY, 4), 6: (SKY, 2), 2: (PINK, 4), 8: (PINK, 3)})
    for i, (place, fill) in enumerate([(1, SKY), (5, SKY), (6, SKY)]):
        svg.rect(x, y + i * 22, 20, CELL, fill)
        dx, dy = PLACES[place]
        svg.line(x + 22, y + i * 22 + 7, x + dx - 3, y + dy + 7, MUTED, 1.2, tip=True)
    return "a table for each sequence"


def paged_attention(svg, x, y):
    pool(svg, x, y, {1: (SKY, 4), 5: (SKY, 4), 6: (SKY, 2)})
    svg.rect(x, y + 26, 26, 22, ORANGE)
    svg.text(x + 13, y + 42, "q", 14, "#ffffff", 700, "middle")
    for place in (1, 5, 6):
        dx, dy = PLACES[place]
        svg.line(x + 26, y + 37, x + dx - 3, y + dy + 7, ORANGE, 1.4, tip=True)
    return "the kernel walks it"


def refcount_cow(svg, x, y):
    for i, fill in enumerate([SKY, PINK]):
        svg.rect(x, y + i * 50 + 12, 22, CELL, fill)
        for at in (0, 1):
            svg.line(x + 24, y + i * 50 + 19, x + 60, y + at * 30 + 23, MUTED, 1.2, tip=True)
        svg.line(x + 24, y + i * 50 + 19, x + 128, y + i * 44 + 19, MUTED, 1.2, "3 3", tip=True)
    for at in (0, 1):
        block(svg, x + 64, y + at * 30 + 16, SHARED)
        svg.text(x + 108, y + at * 30 + 28, "2", 12, INK, 700)
    block(svg, x + 134, y + 12, SKY, 3)
    block(svg, x + 134, y + 56, PINK, 2)
    return "share, copy to write"


def prefix_hashing(svg, x, y):
    for i, name in enumerate(["9f3a", "c071", "52be"]):
        svg.rect(x + i * 62, y + 4, 50, 22, SKY)
        svg.text(x + i * 62 + 25, y + 19, name, 12, INK, 600, "middle")
        if i:
            svg.line(x + i * 62 - 11, y + 15, x + i * 62 - 2, y + 15, MUTED, 1.4, tip=True)
    for i, fill in enumerate([GREEN, GREEN, ORANGE]):
        svg.rect(x + i * 62, y + 58, 50, 22, fill)
        svg.text(x + i * 62 + 25, y + 73, ["found", "found", "new"][i], 12, "#ffffff", 600, "middle")
        if i < 2:
            svg.line(x + i * 62 + 25, y + 56, x + i * 62 + 25, y + 29, GREEN, 1.6, tip=True)
    return "content has a name"


def lru_eviction(svg, x, y):
    shades = ["#e4eef5", "#cfe3f1", "#b3d5ea", SKY, "#5fa9d6", BLUE]
    for i, fill in enumerate(shades):
        svg.rect(x + 12 + i * 27, y + 34, 23, 24, fill)
    svg.line(x + 9, y + 46, x - 2, y + 46, ORANGE, 2, tip=True)
    svg.text(x + 20, y + 80, "oldest: taken next", 12, MUTED)
    svg.path([(x + 100, y + 30), (x + 100, y + 18), (x + 166, y + 18)], GREEN, 1.6)
    svg.text(x + 78, y + 10, "a hit revives", 12, GREEN, 600)
    return "freed blocks stay useful"


def scheduler(svg, x, y):
    bars = [[(0, 3, ORANGE), (3, 11, SKY)], [(0, 1, EMPTY), (1, 4, ORANGE), (4, 7, SKY), (7, 9, EMPTY), (9, 10, ORANGE)],
            [(2, 4, EMPTY), (4, 5, ORANGE), (5, 11, SKY)], [(3, 8, EMPTY), (8, 10, ORANGE), (10, 11, SKY)]]
    for i, parts in enumerate(bars):
        for begin, end, fill in parts:
            svg.rect(x + begin * 15, y + i * 22, (end - begin) * 15, CELL, fill)
    svg.text(x + 84, y + 4 * 22 + 12, "the second is preempted", 12, MUTED, anchor="middle")
    return "more requests than fit"


def lookahead(svg, x, y):
    for i, (word, right) in enumerate((("the", True), ("red", True), ("kite", True), ("sang", False), ("and", False))):
        left = x + i * 35
        svg.rect(left, y + 8, 33, 24, BLUE if i == 0 else ORANGE if right else EMPTY)
        svg.text(left + 16.5, y + 25, word, 12, "#ffffff" if i == 0 else INK if right else MUTED, anchor="middle")
        if not right:
            svg.line(left + 3, y + 20, left + 30, y + 20, MUTED, 1.6)
    svg.text(x + 16, y + 52, "known", 12, MUTED, anchor="middle")
    svg.text(x + 69, y + 52, "right", 12, MUTED, anchor="middle")
    svg.text(x + 139, y + 52, "struck out", 12, MUTED, anchor="middle")
    svg.text(x + 84, y + 84, "one pass, three tokens", 12, MUTED, anchor="middle")
    return "guess, check in one pass"


def windows(svg, x, y):
    for line, entries in enumerate(([SKY] * 6, [None] * 4 + [SKY] * 2, [None] * 4 + [SKY] * 2)):
        for i, fill in enumerate(entries):
            left, top = x + i * 29, y + line * 27
            svg.rect(left, top, 25, 20, fill or EMPTY)
            if not fill:
                svg.text(left + 12.5, top + 14.5, "0", 12, MUTED, anchor="middle")
    svg.path([(x + 113, y + 23), (x + 174, y + 23), (x + 174, y + 79), (x + 113, y + 79), (x + 113, y + 23)], ORANGE, 1.8)
    svg.text(x + 43, y + 96, "read by none", 12, MUTED, anchor="middle")
    svg.text(x + 172, y + 96, "the window", 12, ORANGE, 600, "end")
    return "layers that forget"


def shelf(svg, x, y, name, fills):
    svg.text(x, y + 12, name, 12, MUTED)
    for i, fill in enumerate(fills):
        svg.rect(x + 48 + i * 23, y, CELL, CELL, fill)


def host_tier(svg, x, y):
    shelf(svg, x, y, "device", [SKY] * 3)
    shelf(svg, x, y + 46, "host", [SKY] * 4 + [EMPTY] * 2)
    svg.line(x + 54, y + 17, x + 54, y + 42, INK, 1.8, tip=True)
    svg.line(x + 77, y + 43, x + 77, y + 18, GREEN, 1.8, tip=True)
    svg.text(x + 86, y + 34, "offload, load", 12, GREEN, 600)
    return "a pool in host memory"


def file_tier(svg, x, y):
    shelf(svg, x, y, "host", [SKY] * 4 + [EMPTY] * 2)
    shelf(svg, x, y + 46, "file", [SKY] * 4 + [EMPTY] * 2)
    svg.line(x + 77, y + 43, x + 77, y + 18, GREEN, 1.8, tip=True)
    svg.text(x + 90, y + 34, "restart", 12, GREEN, 600)
    return "a later start finds it"


def shared_tier(svg, x, y):
    shelf(svg, x, y, "one", [SKY] * 3)
    shelf(svg, x, y + 38, "store", [SKY] * 3 + [EMPTY] * 2)
    shelf(svg, x, y + 76, "two", [SKY] * 3)
    svg.line(x + 54, y + 16, x + 54, y + 35, INK, 1.8, tip=True)
    svg.line(x + 77, y + 54, x + 77, y + 73, GREEN, 1.8, tip=True)
    svg.text(x + 88, y + 69, "by its name", 12, GREEN, 600)
    return "what one has, two loads"


def fp8_pages(svg, x, y):
    shelf(svg, x, y, "bf16", [SKY] * 3)
    shelf(svg, x, y + 46, "FP8", [SKY] * 6)
    svg.line(x + 77, y + 18, x + 77, y + 43, ORANGE, 1.8, tip=True)
    svg.text(x + 90, y + 34, "rounded", 12, ORANGE, 600)
    return "K and V in FP8"


PANELS = [("01 No cache", no_cache), ("02 A flat cache", flat_cache), ("03 Paged blocks", paged_blocks),
          ("04 Paged attention", paged_attention), ("05 Share and copy", refcount_cow),
          ("06 Prefix hashing", prefix_hashing), ("07 LRU eviction", lru_eviction),
          ("08 The scheduler", scheduler), ("09 Lookahead", lookahead),
          ("10 Windows", windows), ("11 Evicted is not lost", host_tier),
          ("12 A file that survives", file_tier), ("13 A shared store", shared_tier), ("14 Half the bytes", fp8_pages)]


def draw():
    columns = 3
    rows = (len(PANELS) + columns - 1) // columns
    width, height = columns * WIDTH + (columns + 1) * GAP, rows * (HEIGHT + GAP) + GAP
    svg = Svg(width, height,
              "Each lesson keeps K and V in another way: nothing, slabs, blocks with tables, a kernel that reads "
              "through the table, sharing with copy-on-write, names by content, the least recently used goes first, "
              "a scheduler, guesses that are checked in one pass, layers that forget what has left their window, "
              "a pool in host memory for what is evicted, a file that survives a restart, a store that servers share, and "
              "numbers of eight bits. Lessons 01 to 13 give the same bits; lesson 14 rounds, and gives others.")
    for i, (title, picture) in enumerate(PANELS):
        x = GAP + i % columns * (WIDTH + GAP)
        y = GAP + i // columns * (HEIGHT + GAP)
        svg.panel(x, y, WIDTH, HEIGHT)
        svg.text(x + 14, y + 26, title, 13.5, weight=700)
        svg.text(x + 14, y + 46, picture(svg, x + 14, y + 64), 12, MUTED)
    entries = [(ORANGE, "computed in this step"), (SKY, "kept"), (PINK, "of another sequence"), (SHARED, "shared"),
               (GREEN, "found, or loaded"), (EMPTY, "reserved or waiting")]
    x, y = 2 * GAP + 6 + len(PANELS) % columns * (WIDTH + GAP), height - HEIGHT - 8
    for i, entry in enumerate(entries):
        svg.legend(x, y + 14 + 23 * i, [entry])
    svg.text(x, y + 155, "01 to 13: the same bits", 13.5, INK, 700)
    svg.text(x, y + 173, "14: other bits", 13.5, INK, 700)
    return svg.done()


FIGURES = {"overview.svg": draw}
