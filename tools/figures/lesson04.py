"""Diagrams of lesson 04: a tile's rows through the table, the walk as an animation, splits."""
import math
import pathlib
import re

from plots import load
from style import BLUE, EMPTY, FAINT, GREEN, INK, LINE, MUTED, ORANGE, PAPER, SKY, Svg

GPU_TEXT = pathlib.Path(__file__).resolve().parents[2] / "lessons" / "04_paged_attention" / "gpu.md"
WALK = "./course run 4 --walk --context 300 --layer 2 --head 1"


def walk():
    """The steps that the lesson's text shows: (name, first, last, blocks, [m, l, acc 0, acc 1, acc 2]); the largest score of a
    tile is before its m."""
    found = re.search(r"<!-- output: " + re.escape(WALK) + r" -->\n```\n(.*?)\n```", GPU_TEXT.read_text(encoding="utf-8"), re.S)
    steps = []
    for line in found[1].splitlines():
        row = re.match(r"\s*(group|result|out)(.*?)\s+(\d+)-(\d+)\s(.*)$", line)
        if row:
            words = row[5].split()
            numbers = [float(w) for w in words if "." in w.strip(".")]
            blocks = [w for w in words if w.isdigit()]
            steps.append((row[1] + row[2], int(row[3]), int(row[4]), blocks, numbers))
    return steps


def token_ranges(steps):
    return [(first, last, blocks) for name, first, last, blocks, _ in steps if "tile" in name]


def translation():
    steps = walk()
    tiles = token_ranges(steps)
    table = [int(block) for _, _, blocks in tiles for block in blocks]
    svg = Svg(640, 366, "Tile 1 is tokens 64 to 127; its four table entries name blocks anywhere in the pool.",
              "A tile is logical, a block is a place", "300 tokens in blocks of 16; the kernel is at tile 1")
    left, width = 24, 592 / len(table)
    for y, words in ((90, "tiles"), (154, "block table"), (252, "pool")):
        svg.text(left, y, words, 13.5, MUTED)
    for i, (first, last, blocks) in enumerate(tiles):
        x = left + width * 4 * i
        svg.rect(x, 97, width * len(blocks) - 3, 34, ORANGE if i == 1 else SKY)
        svg.text(x + (width * len(blocks) - 3) / 2, 119, f"tile {i}", 13.5, "#ffffff" if i == 1 else INK, 600, "middle")
    middle = lambda place: left + width * place + (width - 3) / 2
    for i, block in enumerate(table):
        chosen = 4 <= i < 8
        svg.rect(left + width * i, 161, width - 3, 34, PAPER, ORANGE if chosen else LINE)
        svg.text(middle(i), 183, str(block), 13.5, INK if chosen else MUTED, 700 if chosen else 400, "middle")
        if chosen:
            svg.line(middle(i), 197, middle(block), 255, ORANGE, 1.6, tip=True)
    for block in range(len(table)):
        chosen = block in table[4:8]
        svg.rect(left + width * block, 259, width - 3, 42, ORANGE if chosen else SKY)
        svg.text(middle(block), 285, str(block), 13.5, "#ffffff" if chosen else INK, 600, "middle")
    svg.wrap(left, 326, "An entry gives the address of 16 rows of K and of V. Scores come out in token order, "
                        "so a block's place cannot change the result.", 592, 14)
    return svg.done()


def one_key():
    steps = walk()
    table = [int(block) for _, _, blocks in token_ranges(steps) for block in blocks]
    key, block_size, kv_head, lane = 37, 16, 2, 5
    entry, offset = divmod(key, block_size)
    block = table[entry]
    svg = Svg(640, 504, f"Key {key}: entry {entry} of the block table names block {block}, its slot {offset} holds the rows of "
                        "all KV heads, and a warp of 32 lanes reads one head of it.", f"Where key {key} is, and who reads it",
              f"blocks of {block_size}, 8 KV heads of 128; the warp's query head reads KV head {kv_head}")
    left, width = 132, 486

    def level(y, height, name, words, count, chosen, label, before=None):
        """A row of `count` cells; two lines lead here from the chosen cell of the row `before`."""
        cell = width / count
        gap = 3 if count < 32 else 2
        svg.text(24, y + height / 2 - 3, name, 14, INK, 700)
        svg.text(24, y + height / 2 + 15, words, 13, MUTED)
        if before:
            above, x1, x2 = before
            svg.line(x1, above, left, y - 3, ORANGE, 1.3)
            svg.line(x2, above, left + width - gap, y - 3, ORANGE, 1.3)
        for n in range(count):
            svg.rect(left + n * cell, y, cell - gap, height, ORANGE if n == chosen else SKY)
            if label:
                svg.text(left + n * cell + (cell - gap) / 2, y + height / 2 + 5, label(n), 13,
                         "#ffffff" if n == chosen else INK, 600 if n == chosen else 400, "middle")
        return y + height + 3, left + chosen * cell, left + (chosen + 1) * cell - gap

    level(84, 34, "block table", f"{key} / {block_size} = {entry}", len(table), entry, lambda n: str(table[n]))
    x, to = (left + (n + 0.5) * width / len(table) - 1.5 for n in (entry, block))
    svg.line(x, 121, to, 152, ORANGE, 1.6, tip=True)
    below = level(156, 34, "pool", f"block {block}", len(table), block, str)
    below = level(228, 34, f"block {block}", f"{key} % {block_size} = {offset}", block_size, offset, str, below)
    below = level(300, 34, "slot", f"KV head {kv_head}", 8, kv_head, lambda n: f"head {n}", below)
    for row in range(4):
        level(372 + 18 * row, 16, "", "", 32, lane, None, below if row == 0 else None)
    svg.text(24, 391, f"head {kv_head}", 14, INK, 700)
    svg.text(24, 409, f"lane {lane} reads", 13, MUTED)
    svg.text(24, 427, ", ".join(str(lane + 32 * row) for row in range(4)), 13, MUTED)
    svg.wrap(24, 466, "All lanes look up the same entry: the memory sends it once. A head's row is one piece of memory, "
                      "in a block as in a slab.", 592, 14)
    return svg.done()


class Frames:
    """Groups of an SVG that are shown one after the other, forever. Where nothing may move, and in FILE.svg#still: the last one."""

    def __init__(self, svg, count, seconds, hold):
        self.svg, self.count, self.seconds, self.total = svg, count, seconds, count * seconds + hold
        svg.parts[0] = svg.parts[0].replace("<svg ", "<svg id='still' ", 1)
        still = f"animation-play-state:paused;animation-delay:-{self.total - 1:g}s"
        svg.add(f"<style>.a{{animation:{self.total:g}s step-end infinite}}"
                f"@media(prefers-reduced-motion:reduce){{.a{{{still}}}}}:target .a{{{still}}}</style>")

    def begin(self, frame):
        self.svg.frames = frame, frame
        percent = lambda at: f"{100 * at * self.seconds / self.total:.2f}%"
        rules = f"{percent(frame)}{{opacity:1}}"
        if frame > 0:
            rules = "0%{opacity:0}" + rules
        if frame < self.count - 1:
            rules += f"{percent(frame + 1)},100%{{opacity:0}}"
        self.svg.add(f"<style>@keyframes k{frame}{{{rules}}}</style>"
                     f"<g class='a' style='animation-name:k{frame}' opacity='{int(frame == self.count - 1)}'>")

    def end(self):
        self.svg.frames = None
        self.svg.add("</g>")


def card(svg, x, title, numbers, colour):
    """m, l and the first elements of acc; acc as bars around a middle line."""
    svg.rect(x, 184, 190, 142, PAPER, colour, 8)
    svg.text(x + 12, 206, title, 14, INK, 700)
    if not numbers:
        svg.text(x + 12, 234, "nothing yet", 13, MUTED)
        return
    has_sum = len(numbers) > 3  # else: the quotient
    if has_sum:
        for left, right, name, number in ((12, 97, "m", numbers[0]), (109, 180, "l", numbers[1])):
            svg.text(x + left, 234, name, 13, MUTED)
            svg.text(x + right, 234, f"{number:.4f}", 14, INK, 600, "end")
    for i, value in enumerate(numbers[2:] if has_sum else numbers):
        y = 246 + i * 25
        svg.text(x + 12, y + 13, f"{'acc' if has_sum else 'out'} {i}", 13, MUTED)
        svg.text(x + 124, y + 13, f"{value:.4f}", 14, INK, 600, "end")
        middle, length = x + 157, 28 * min(1.0, abs(value) / (4 if has_sum else 0.2))
        svg.line(middle, y, middle, y + 17, FAINT, 1)
        svg.rect(middle if value >= 0 else middle - length, y + 3, max(length, 0.5), 11,
                 GREEN if value >= 0 else BLUE, "none", 2)


def story(steps):
    """For each step: the first and last token, the cards, of which the last is new, and a sentence."""
    group = result = None
    frames = []
    for name, first, last, _, numbers in steps:
        if "tile" in name:
            largest, *now = numbers
            words = f"Tokens {first} to {last}: {last - first + 1} scores, of which the largest is {largest:.2f}. "
            if "=" in name:
                group, words = None, words + "It's the group's first tile, so that's m."
            elif "moves" in name:
                words += (f"It would weigh exp({largest:.2f} - {group[0]:.2f}) = {math.exp(largest - group[0]):.0f}, over 256: m moves, "
                          f"and what the group has is multiplied by {math.exp(group[0] - now[0]):.4f}.")
            else:
                words += f"It weighs exp({largest:.2f} - {now[0]:.2f}) = {math.exp(largest - now[0]):.2f}: m stays."
            cards = [("result", result), ("group so far", group), ("group now", now)]
            group = now
        elif name.startswith("result"):
            words = "A complete group joins the result. The next group begins with nothing."
            if result:
                new_m = max(result[0], group[0])
                words = (f"Group joins result: the side with the smaller m shrinks. The factors are "
                         f"{math.exp(result[0] - new_m):.4f} and {math.exp(group[0] - new_m):.4f}.")
            cards = [("the group", group), ("result so far", result), ("result now", numbers)]
            result = numbers
        else:
            words = ("After the last key: out = acc / l = " + ", ".join(f"{x:.4f}" for x in numbers)
                     + ", ... No score was kept.")
            cards = [("result", result), ("out = acc / l", numbers)]
        frames.append((first, last, cards, "tile" in name, words))
    return frames


def online_softmax():
    steps = walk()
    frames = story(steps)
    svg = Svg(640, 394, "An animation: tiles of 64 keys are added to m, l and acc of their group, and groups are merged into "
                        "the result, in order.", "Online softmax: one query walks over 300 keys",
              "layer 2, head 1 of the shipped model; the numbers are those of the table in the text")
    tiles = token_ranges(steps)
    left, width = 24, 592 / 300
    time = Frames(svg, len(frames), 2.4, 3.0)

    def bar(i, fill, colour, weight):
        first, last, _ = tiles[i]
        svg.rect(left + width * first, 80, width * (last - first + 1) - 3, 36, fill)
        svg.text(left + width * (first + last + 1) / 2 - 1.5, 103, f"tile {i}", 13.5, colour, weight, "middle")

    for i, (first, last, blocks) in enumerate(tiles):
        bar(i, EMPTY, MUTED, 400)
        for b, block in enumerate(blocks):
            begin = first + 16 * b
            svg.text(left + width * (begin + min(begin + 16, last + 1)) / 2 - 1.5, 135, block, 12, MUTED, anchor="middle")
    svg.text(left, 161, "the numbers under a tile: the blocks that its rows are in", 13, MUTED)
    for i, (first, last, cards, is_tile, words) in enumerate(frames):
        time.begin(i)
        for t, (a, b, _) in enumerate(tiles):
            if a <= last and b >= first and (not is_tile or a == first):
                bar(t, ORANGE if is_tile else SKY, "#ffffff" if is_tile else INK, 600)
        for c, (title, numbers) in enumerate(cards):
            card(svg, left + c * 201, title, numbers, ORANGE if c + 1 == len(cards) else LINE)
        svg.wrap(left, 350, words, 592, 13.5)
        time.end()
    return svg.done()


def split():
    svg = Svg(640, 414, "The same 21 tiles given to one, three or six CTAs: tiles, groups and the order of merges stay.",
              "Partitions are logical, merges are ordered", "1,300 tokens: 21 tiles of 64, 6 groups of 4 tiles, from token 0")
    left, cell, gap = 112, 22.8, 5
    colours = (BLUE, GREEN, "#5b6b8c", "#56b4e9", "#8c6bb1", ORANGE)
    x_of = lambda tile: left + tile * cell + tile // 4 * gap
    for row, (words, share) in enumerate((("one CTA", 6), ("three CTAs", 2), ("six CTAs", 1))):
        y = 82 + row * 44
        svg.text(24, y + 21, words, 13.5, MUTED)
        for t in range(21):
            svg.rect(x_of(t), y, cell - 2, 32, colours[t // 4 // share])
            svg.text(x_of(t) + cell / 2 - 1, y + 21, str(t), 12, "#ffffff", 600, "middle")
    svg.text(24, 247, "groups", 13.5, MUTED)
    svg.text(24, 313, "result", 13.5, MUTED)
    for g in range(6):
        begin, end = x_of(4 * g), x_of(min(4 * g + 3, 20)) + cell - 2
        x = (begin + end) / 2
        svg.line(x, 204, x, 222, MUTED, 1.3, tip=True)
        svg.rect(begin, 226, end - begin, 32, PAPER, INK)
        svg.text(x, 247, f"m l acc {g}" if g < 5 else str(g), 13, INK, 600, "middle")
        svg.line(x, 261, x, 297, MUTED, 1.3, tip=True)
        svg.add(f"<circle cx='{x:.1f}' cy='308' r='10' fill='{PAPER}' stroke='{INK}'/>")
        svg.text(x, 313, "+" if g else "=", 14, INK, 700, "middle")
        if g:
            svg.line(before + 11, 308, x - 12, 308, INK, 1.6, tip=True)
        before = x
    svg.wrap(24, 348, "Who computes a group changes with the split. What a group is, and the order in which groups are "
                      "added, does not. A float sum has other bits in another order, so this is what keeps the bits.",
             592, 14)
    return svg.done()


def cost():
    """The benchmark: each way to read K and V as a share of a plain read of the same bytes."""
    data = load("lesson04.json")
    ways = [("paged_seconds", "through the table", BLUE, False), ("contiguous_seconds", "slabs", GREEN, True),
            ("gathered_seconds", "gathered first", FAINT, True)]
    shown = ("64 x 4,096", "64 x 4,096 blocks of 1", "64 uneven, 4,096 on average", "256 x 1,024", "32 of 100 to 1,024",
             "1 x 32,768", "4 x 1,024", "1 x 1,024", "64 x 4,096, 64 heads", "64 x 4,096, heads of 80")
    cases = [case for case in data["cases"] if case["case"] in shown]
    left, right, top, pitch = 230, 588, 164, 40
    bottom = top + pitch * len(cases)
    svg = Svg(640, bottom + 40, "Shares of a plain read's speed: paged, slabs, gather first.", "Attention of a decode step",
              f"speed as a share of a plain read; half of the cases; sequences x context, {data['device']}")
    x_of = lambda share: left + (right - left) * min(share, 1)
    for percent in range(0, 101, 20):
        x = x_of(percent / 100)
        svg.line(x, top - 12, x, bottom - 8, LINE, 1)
        svg.text(x, bottom + 12, f"{percent} %", 13, MUTED, anchor="middle")
    x = 30
    for _, words, colour, square in ways:
        svg.dot(x, 115, colour, square)
        x = svg.text(x + 12, 120, words, 13.5, MUTED) + 26
    for i, case in enumerate(cases):
        y = top + pitch * i + 4
        svg.text(left - 14, y + 5, case["case"], 13, INK, anchor="end")
        svg.line(left, y, right, y, EMPTY, 1)
        for below, (key, _, colour, square) in enumerate(ways):  # one under the other, as they nearly coincide
            svg.dot(x_of(case["read_seconds"] / case[key]), y + 11 * (below - 1), colour, square)
    return svg.done()


FIGURES = {"lesson04_cost.svg": cost, "lesson04_one_key.svg": one_key, "lesson04_online_softmax.svg": online_softmax,
           "lesson04_split.svg": split, "lesson04_translation.svg": translation}
