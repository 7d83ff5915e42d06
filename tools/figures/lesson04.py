"""Diagrams of lesson 04: a tile's rows through the table, the walk as an animation, splits."""
import json
import math
import pathlib
import re

from style import BLUE, EMPTY, FAINT, GREEN, INK, LINE, MUTED, ORANGE, PAPER, SKY, Svg

README = pathlib.Path(__file__).resolve().parents[2] / "lessons" / "04_paged_attention" / "README.md"
WALK = "./course run 4 --walk --context 300"


def walk():
    """The steps that the lesson's text shows: (name, first, last, blocks, [m, l, acc 0, acc 1, acc 2])."""
    text = README.read_text(encoding="utf-8") if README.exists() else ""
    found = re.search(r"<!-- output: " + re.escape(WALK) + r" -->\n```\n(.*?)\n```", text, re.S)
    steps = []
    for line in found[1].splitlines() if found else ():
        row = re.match(r"\s*(tile|group|result|out)(.*?)\s+(\d+)-(\d+)\s(.*)$", line)
        if row:
            words = row[5].split()
            numbers = [float(w) for w in words if "." in w.strip(".")]
            blocks = [w for w in words if w.isdigit()]
            steps.append((row[1] + row[2], int(row[3]), int(row[4]), blocks, numbers))
    return steps


def token_ranges(steps):
    return [(first, last, blocks) for name, first, last, blocks, _ in steps if name.startswith("tile")]


def translation():
    steps = walk()
    if not steps:
        return None
    tiles = token_ranges(steps)
    table = [int(block) for _, _, blocks in tiles for block in blocks]
    svg = Svg(920, 430, "Tile 1 is tokens 64 to 127; its four table entries name blocks anywhere in the pool.")
    svg.panel(20, 20, 880, 390, "A tile is logical, a block is a place",
              "300 tokens in blocks of 16; the kernel is at tile 1")
    left, width = 150, 720 / len(table)
    svg.text(44, 122, "tiles", 13, MUTED)
    for i, (first, last, blocks) in enumerate(tiles):
        x = left + width * 4 * i
        svg.rect(x, 100, width * len(blocks) - 4, 34, ORANGE if i == 1 else SKY)
        svg.text(x + (width * len(blocks) - 4) / 2, 122, f"tile {i}", 13, "#ffffff" if i == 1 else INK, 600, "middle")
    svg.text(44, 178, "block table", 13, MUTED)
    for i, block in enumerate(table):
        chosen = 4 <= i < 8
        svg.rect(left + width * i, 156, width - 4, 34, PAPER, ORANGE if chosen else LINE)
        svg.text(left + width * i + (width - 4) / 2, 178, str(block), 13, INK if chosen else MUTED,
                 700 if chosen else 400, "middle")
    svg.text(44, 300, "pool", 13, MUTED)
    for block in range(len(table)):
        chosen = block in table[4:8]
        x = left + width * block
        svg.rect(x, 268, width - 4, 52, ORANGE if chosen else SKY)
        svg.text(x + (width - 4) / 2, 299, str(block), 13, "#ffffff" if chosen else INK, 600, "middle")
    for i in range(4, 8):
        x, to = left + width * i + (width - 4) / 2, left + width * table[i] + (width - 4) / 2
        svg.line(x, 192, to, 264, ORANGE, 1.6, tip=True)
    svg.text(44, 356, "One look into the table gives the address of 16 rows of K and 16 of V. The scores come out in token",
             13.5, INK)
    svg.text(44, 378, "order, tile by tile, as if the rows lay side by side: where a block lies cannot reach the result.",
             13.5, INK)
    return svg.done()


def one_key():
    steps = walk()
    if not steps:
        return None
    table = [int(block) for _, _, blocks in token_ranges(steps) for block in blocks]
    key, block_size, kv_head, lane = 37, 16, 2, 5
    entry, offset = divmod(key, block_size)
    block = table[entry]
    svg = Svg(920, 600, f"Key {key}: entry {entry} of the block table names block {block}, its slot {offset} holds the rows of "
                        "all KV heads, and a warp of 32 lanes reads one head of it.")
    svg.panel(20, 20, 880, 560, f"Where key {key} is, and who reads it",
              f"blocks of {block_size}, 8 KV heads of 128; the warp's query head reads KV head {kv_head}")
    left, width = 200, 676

    def level(y, height, name, words, count, chosen, label, before=None):
        """A row of `count` cells; two lines lead here from the chosen cell of the row `before`."""
        cell = width / count
        svg.text(44, y + height / 2 - 3, name, 14, INK, 700)
        svg.text(44, y + height / 2 + 15, words, 12.5, MUTED)
        if before:
            above, x1, x2 = before
            svg.line(x1, above, left, y - 3, ORANGE, 1.3)
            svg.line(x2, above, left + width, y - 3, ORANGE, 1.3)
        for n in range(count):
            svg.rect(left + n * cell, y, cell - 3, height, ORANGE if n == chosen else SKY)
            if label(n):
                svg.text(left + n * cell + (cell - 3) / 2, y + height / 2 + 5, label(n), 12.5,
                         "#ffffff" if n == chosen else INK, 600 if n == chosen else 400, "middle")
        return y + height + 3, left + chosen * cell, left + (chosen + 1) * cell - 3

    level(100, 30, "block table", f"{key} / {block_size} = {entry}", len(table), entry, lambda n: str(table[n]))
    x, to = (left + (n + 0.5) * width / len(table) for n in (entry, block))
    svg.line(x, 134, to, 170, ORANGE, 1.6, tip=True)
    below = level(174, 34, "pool", f"block {block}", len(table), block, str)
    below = level(248, 34, f"block {block}", f"{key} % {block_size} = {offset}", block_size, offset, str, below)
    below = level(322, 34, "slot", f"KV head {kv_head}", 8, kv_head, lambda n: f"head {n}", below)
    for row in range(4):
        level(396 + 20 * row, 17, "row of the head" if row == 0 else "", "", 32, lane, lambda n: "",
              below if row == 0 else None)
        svg.text(188, 409 + 20 * row, f"{32 * row}-{32 * row + 31}", 11, MUTED, anchor="end")
    svg.text(44, 438, f"lane {lane} reads", 12.5, MUTED)
    svg.text(44, 455, "4 of the 128", 12.5, MUTED)
    svg.text(44, 516, "All lanes look up the same entry: the memory sends it once. Then each reads its own elements of the row.",
             13.5, INK)
    svg.text(44, 540, "A head's row is one piece of memory, in a block as in a slab: that the next key may lie in another block",
             13.5, INK)
    svg.text(44, 562, "changes nothing about this one.", 13.5, INK)
    return svg.done()


class Frames:
    """Groups of an SVG that are shown one after the other, for ever. Without animation: the last one."""

    def __init__(self, svg, count, seconds, hold):
        self.svg, self.count, self.seconds, self.total = svg, count, seconds, count * seconds + hold

    def begin(self, frame, last=None):
        """Shown from `frame` on, through frame `last` (the same one if none is given)."""
        last = frame if last is None else last
        start = frame * self.seconds / self.total
        end = 1.0 if last >= self.count - 1 else (last + 1) * self.seconds / self.total
        points = [(0.0, 1 if start == 0 else 0)]
        if start > 0:
            points.append((start, 1))
        if end < 1.0:
            points.append((end, 0))
        values = ";".join(str(v) for _, v in points)
        times = ";".join(f"{t:.4f}".rstrip("0").rstrip(".") for t, _ in points)
        self.svg.add(f"<g opacity='{1 if end == 1.0 else 0}'><animate attributeName='opacity' values='{values}' "
                     f"keyTimes='{times}' dur='{self.total:g}s' calcMode='discrete' repeatCount='indefinite'/>")

    def end(self):
        self.svg.add("</g>")


def card(svg, x, title, numbers, colour):
    """m, l and the first elements of acc; acc as bars around a middle line."""
    svg.rect(x, 196, 260, 150, PAPER, colour, 8)
    svg.text(x + 16, 222, title, 14, INK, 700)
    if not numbers:
        svg.text(x + 16, 252, "nothing yet", 13, FAINT)
        return
    has_sum = len(numbers) > 3  # else: the quotient
    if has_sum:
        svg.text(x + 16, 254, "m", 13, MUTED)
        svg.text(x + 130, 254, f"{numbers[0]:.4f}", 14, INK, 600, "end")
        svg.text(x + 164, 254, "l", 13, MUTED)
        svg.text(x + 238, 254, f"{numbers[1]:.4f}", 14, INK, 600, "end")
    for i, value in enumerate(numbers[2:] if has_sum else numbers):
        y = 268 + i * 25
        svg.text(x + 16, y + 13, f"{'acc' if has_sum else 'out'} {i}", 13, MUTED)
        svg.text(x + 130, y + 13, f"{value:.4f}", 14, INK, 600, "end")
        middle, length = x + 192, 46 * min(1.0, abs(value) / 0.12)
        svg.rect(middle if value >= 0 else middle - length, y + 3, max(length, 0.5), 11,
                 GREEN if value >= 0 else BLUE, "none", 2)
        svg.line(middle, y, middle, y + 17, FAINT, 1)


def story(steps):
    """For each step: the first and last token, the three cards, which one is new, and a sentence."""
    tile = group = result = None
    frames = []
    for name, first, last, _, numbers in steps:
        if name.startswith("tile"):
            tile, new = numbers, 0
            words = (f"Tokens {first} to {last}: {last - first + 1} scores, their largest m, the sum l and the weighted "
                     "values acc, from scratch.")
        elif name.startswith("group"):
            if "+" in name:
                old, group = group, numbers
                new_m = max(old[0], tile[0])
                words = (f"m = max({old[0]:.2f}, {tile[0]:.2f}). What the group had is multiplied by "
                         f"exp({old[0]:.2f} - {new_m:.2f}) = {math.exp(old[0] - new_m):.3f}, the tile by "
                         f"{math.exp(tile[0] - new_m):.3f}; then they are added.")
            else:
                group = numbers
                words = "The first tile of a group is the group."
            new = 1
        elif name.startswith("result"):
            if "+" in name:
                new_m = max(result[0], group[0])
                words = (f"Group joins result, by the same rule: the factors are {math.exp(result[0] - new_m):.3f} and "
                         f"{math.exp(group[0] - new_m):.3f}.")
            else:
                words = "A complete group joins the result. The next group starts from nothing."
            result, new = numbers, 2
        else:
            words = ("After the last key: out = acc / l = " + ", ".join(f"{x:.4f}" for x in numbers)
                     + ", ... No score was kept.")
            new = 3
        cards = [("this tile", tile), ("its group", group), ("result", result)]
        if new == 3:
            cards[1:] = [("result", result), ("out = acc / l", numbers)]
        frames.append((first, last, cards, min(new, 2), words))
        if new == 2:
            group = None
    return frames


def online_softmax():
    steps = walk()
    if not steps:
        return None
    frames = story(steps)
    svg = Svg(920, 420, "An animation: tiles of 64 keys give m, l and acc; they are merged into groups, and groups into "
                        "the result, in order.")
    svg.panel(20, 20, 880, 380, "Online softmax: one query walks over 300 keys",
              "layer 0, head 0 of the shipped model; the numbers are those of the table in the text")
    tiles = token_ranges(steps)
    left, width = 44, 832 / 300
    time = Frames(svg, len(frames), 2.4, 3.0)
    for i, (first, last, blocks) in enumerate(tiles):
        x = left + width * first
        svg.rect(x, 100, width * (last - first + 1) - 4, 40, EMPTY)
        for b, block in enumerate(blocks):
            end = min(first + 16 * (b + 1), last + 1)
            svg.text(x + width * (16 * b + (end - first - 16 * b) / 2) - 2, 160, block, 11.5, MUTED, anchor="middle")
        svg.text(x + (width * (last - first + 1) - 4) / 2, 125, f"tile {i}", 13, MUTED, anchor="middle")
    svg.text(left, 181, "the numbers under a tile: the blocks that its rows are in", 12, FAINT)
    for i, (first, last, cards, new, words) in enumerate(frames):
        time.begin(i)
        for t, (a, b, _) in enumerate(tiles):
            if a <= last and b >= first and (new != 0 or a == first):
                svg.rect(left + width * a, 100, width * (b - a + 1) - 4, 40, ORANGE if new == 0 else SKY)
                svg.text(left + width * a + (width * (b - a + 1) - 4) / 2, 125, f"tile {t}", 13,
                         "#ffffff" if new == 0 else INK, 600, "middle")
        for c, (title, numbers) in enumerate(cards):
            card(svg, left + c * 286, title, numbers, ORANGE if new == c else LINE)
        svg.text(left, 378, words, 13, INK)
        time.end()
    return svg.done()


def split():
    svg = Svg(920, 470, "The same 21 tiles given to one, three or six CTAs: tiles, groups and the order of merges stay.")
    svg.panel(20, 20, 880, 430, "Partitions are logical, merges are ordered",
              "1,300 tokens: 21 tiles of 64, 6 groups of 4 tiles, counted from token 0")
    left, cell, gap = 150, 31, 8
    colours = (BLUE, GREEN, "#5b6b8c", "#56b4e9", "#8c6bb1", ORANGE)
    x_of = [left + t * cell + (t // 4) * gap for t in range(22)]
    for row, (words, owner) in enumerate((("one CTA", lambda g: 0), ("three CTAs", lambda g: g // 2),
                                          ("six CTAs", lambda g: g))):
        y = 100 + row * 52
        svg.text(44, y + 23, words, 13, MUTED)
        for t in range(21):
            svg.rect(x_of[t], y, cell - 3, 34, colours[owner(t // 4)])
            svg.text(x_of[t] + (cell - 3) / 2, y + 22, str(t), 12, "#ffffff", 600, "middle")
    y = 276
    svg.text(44, y + 22, "groups", 13, MUTED)
    centres = []
    for g in range(6):
        first, last = 4 * g, min(4 * g + 3, 20)
        x, end = x_of[first], x_of[last] + cell - 3
        svg.line((x + end) / 2, 242, (x + end) / 2, y - 4, MUTED, 1.3, tip=True)
        svg.rect(x, y, end - x, 34, PAPER, INK)
        svg.text((x + end) / 2, y + 22, f"m l acc {g}" if last > first else str(g), 12.5, INK, 600, "middle")
        centres.append((x + end) / 2)
    y = 356
    svg.text(44, y + 5, "result", 13, MUTED)
    for g, x in enumerate(centres):
        svg.line(x, 312, x, y - 10, MUTED, 1.3, tip=True)
        svg.add(f"<circle cx='{x:.1f}' cy='{y}' r='9' fill='{PAPER}' stroke='{INK}'/>")
        svg.text(x, y + 4.5, "=" if g == 0 else "+", 13, INK, 700, "middle")
        if g:
            svg.line(centres[g - 1] + 10, y, x - 11, y, INK, 1.6, tip=True)
    svg.text(44, 404, "Who computes a group changes with the split. What a group is, and the order in which groups are added,",
             13.5, INK)
    svg.text(44, 426, "does not. A float sum has other bits in another order, so this is what keeps the bits.", 13.5, INK)
    return svg.done()


def cost():
    """The benchmark: each way to read K and V as a share of a plain read of the same bytes."""
    path = README.parents[2] / "docs" / "figures" / "data" / "lesson04.json"
    data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    if data is None:
        return None
    ways = [("paged_seconds", "through the table", BLUE, False), ("contiguous_seconds", "slabs", GREEN, True),
            ("gathered_seconds", "gathered first", FAINT, True)]
    cases = data["cases"]
    left, right, top, pitch = 260, 850, 152, 34
    bottom = top + pitch * len(cases)
    svg = Svg(920, bottom + 80, "Shares of a plain read's speed: paged, slabs, gather first.")
    svg.panel(20, 20, 880, bottom + 40, "Attention of a decode step: share of a plain read of the same K and V",
              f"sequences x context, {data['device']}")
    x_of = lambda share: left + (right - left) * min(share, 1)
    for percent in range(0, 101, 20):
        x = x_of(percent / 100)
        svg.line(x, top - 12, x, bottom - 8, LINE, 1)
        svg.text(x, bottom + 14, f"{percent} %", 12.5, MUTED, anchor="middle")
    x = 44
    for _, words, colour, square in ways:
        svg.dot(x, 108, colour, square)
        svg.text(x + 12, 113, words, 13.5, MUTED)
        x += 44 + 7.2 * len(words)
    for i, case in enumerate(cases):
        y = top + pitch * i + 4
        svg.text(left - 18, y + 4, case["case"], 13, INK, anchor="end")
        svg.line(left, y, right, y, EMPTY, 1)
        for key, _, colour, square in reversed(ways):
            svg.dot(x_of(case["read_seconds"] / case[key]), y, colour, square)
    return svg.done()


FIGURES = {"lesson04_cost.svg": cost, "lesson04_one_key.svg": one_key, "lesson04_online_softmax.svg": online_softmax,
           "lesson04_split.svg": split, "lesson04_translation.svg": translation}
