"""Diagrams of lesson 05: a fork and a copy-on-write, the tree of a beam search, blocks saved."""
from style import BLUE, EMPTY, FAINT, GREEN, INK, LINE, MUTED, ORANGE, PAPER, SKY, Svg

A, B, BOTH = SKY, "#f2b48c", "url(#both)"
STRIPES = (f"<defs><pattern id='both' width='16' height='16' patternUnits='userSpaceOnUse' "
           f"patternTransform='rotate(45)'><rect width='16' height='16' fill='{A}'/>"
           f"<rect width='8' height='16' fill='{B}'/></pattern></defs>")


def fork_and_copy():
    svg = Svg(640, 642, "A fork copies the table: both sequences hold blocks 0 and 1. B appends: block 1 is copied to "
                        "block 2, its count falls to 1, and B's table points at block 2.")
    svg.add(STRIPES)
    stages = (
        ("1  A alone", "six tokens in blocks of 4", {"A": (0, 1)}, "once", "_a", "", (1, 1, 0), (A, A, EMPTY)),
        ("2  fork: B from A", "a table is copied, no block", {"A": (0, 1), "B": (0, 1)}, "once", "_a", "",
         (2, 2, 0), (BOTH, BOTH, EMPTY)),
        ("3  B appends one token", "the shared tail is copied first", {"A": (0, 1), "B": (0, 2)}, "once", "_a", "_an",
         (2, 1, 1), (BOTH, A, B)),
    )
    for column, (title, words, tables, *contents, counts, fills) in enumerate(stages):
        y0 = 8 + column * 196
        svg.panel(8, y0, 624, 188, title, words)
        for row, name in enumerate("AB"):
            y = y0 + 78 + row * 44
            if name not in tables:
                continue
            svg.text(24, y + 20, f"table {name}", 13, MUTED)
            for i, block in enumerate(tables[name]):
                changed = column == 2 and name == "B" and block == 2
                svg.rect(86 + i * 46, y, 40, 28, PAPER, ORANGE if changed else FAINT, 5)
                svg.text(106 + i * 46, y + 19, str(block), 14, ORANGE if changed else INK, 700, "middle")
        for block in range(3):
            y, x = y0 + 24 + block * 50, 264
            svg.text(x + 24, y + 21, f"block {block}", 13, MUTED)
            used = counts[block] > 0
            svg.rect(x + 92, y, 144, 34, PAPER if used else EMPTY, LINE, 4)
            for slot in range(4):
                filled = slot < len(contents[block])
                if filled:
                    svg.rect(x + 92 + slot * 36, y, 36, 34, fills[block], PAPER, 3)
                    svg.text(x + 110 + slot * 36, y + 22, contents[block][slot], 15, INK, 600, "middle")
            svg.text(x + 250, y + 21, f"ref {counts[block]}" if used else "free", 13.5, INK if used else MUTED,
                     700 if counts[block] > 1 else 400)
        if column == 2:
            svg.path([(x + 91, y0 + 91), (x + 82, y0 + 91), (x + 82, y0 + 141)], ORANGE, 1.8)
            svg.line(x + 82, y0 + 141, x + 91, y0 + 141, ORANGE, 1.8, tip=True)
    svg.legend(24, 622, ((A, "held by A"), (B, "held by B"), (BOTH, "held by both: never written"), (EMPTY, "free")))
    return svg.done()


# For each step, the hypothesis that each new one continues (best first).
PARENTS = ((0, 0, 0, 0), (0, 0, 1, 3), (0, 1, 1, 2), (0, 0, 1, 2), (0, 0, 2, 3))


def beam_tree():
    svg = Svg(640, 376, "Four hypotheses for five steps: some continue, some are forked, some end without a child.")
    svg.panel(8, 8, 624, 360, "A beam search as forks and frees", "four beams; a column is a step, a circle a hypothesis, "
              "best on top")
    alive = [set() for _ in PARENTS]
    alive[-1] = set(range(4))
    for step in range(len(PARENTS) - 1, 0, -1):
        alive[step - 1] = {PARENTS[step][child] for child in alive[step]}

    def place(step, beam):
        return 140 + step * 110, 108 + beam * 48

    svg.rect(24, 161, 72, 38, BLUE, BLUE, 6)
    svg.text(60, 185, "prompt", 14, "#ffffff", 600, "middle")
    for step, parents in enumerate(PARENTS):
        for beam, parent in enumerate(parents):
            x, y = place(step, beam)
            px, py = (96, 180) if step == 0 else place(step - 1, parent)
            on = beam in alive[step]
            svg.line(px + (0 if step == 0 else 10), py, x - 10, y, BLUE if on else FAINT, 2.4 if on else 1.3,
                     "" if on else "4 4")
    for step, parents in enumerate(PARENTS):
        for beam in range(4):
            x, y = place(step, beam)
            last = step + 1 == len(PARENTS)
            children = 1 if last else PARENTS[step + 1].count(beam)
            fill = EMPTY if children == 0 else GREEN if children > 1 else SKY
            svg.add(f"<circle cx='{x}' cy='{y}' r='10' fill='{fill}' stroke='{LINE}'/>")
            if children > 1:
                svg.text(x, y - 15, f"× {children}", 12.5, MUTED, anchor="middle")
    for step in range(len(PARENTS)):
        svg.text(140 + step * 110, 288, f"step {step + 1}", 12.5, MUTED, anchor="middle")
    svg.legend(24, 322, ((GREEN, "forked"), (SKY, "one continuation"), (EMPTY, "no continuation: freed")))
    svg.text(24, 350, "solid: how the four that are left began", 13.5, BLUE)
    return svg.done()


def blocks(tokens, size=16):
    return -(-tokens // size)


def blocks_saved():
    prompt, beams, size, most = 64, 4, 16, 64
    svg = Svg(640, 400, "Blocks of four continuations of a 64-token prompt: as copies 16 to 32, shared 4 to 20.")
    svg.panel(8, 8, 624, 384, "Four continuations of a 64-token prompt", "blocks of 16 tokens")
    left, right, bottom, top, highest = 56, 520, 326, 92, 36

    def at(new, count):
        return left + (right - left) * new / most, bottom - (bottom - top) * count / highest

    for count in range(0, highest + 1, 8):
        x, y = at(0, count)
        svg.line(x, y, right, y, LINE, 1)
        svg.text(x - 10, y + 4, str(count), 12.5, MUTED, anchor="end")
    for new in range(0, most + 1, 16):
        x, y = at(new, 0)
        svg.text(x, y + 20, str(new), 12.5, MUTED, anchor="middle")
    svg.text((left + right) / 2, bottom + 42, "new tokens of each", 13, MUTED, anchor="middle")
    copied = [beams * blocks(prompt + new, size) for new in range(most + 1)]
    shared = [prompt // size + beams * (blocks(prompt + new, size) - prompt // size) for new in range(most + 1)]
    for counts, colour, words in ((copied, ORANGE, "as copies"), (shared, BLUE, "shared")):
        points = [at(0, counts[0])]
        for new in range(1, most + 1):
            if counts[new] != counts[new - 1]:
                points += [at(new - 1, counts[new - 1]), at(new - 1, counts[new])]
        points.append(at(most, counts[most]))
        svg.path(points, colour)
        for new in (10, 20):
            x, y = at(new, counts[new])
            svg.dot(x, y, colour)
            svg.text(x, y - 12, str(counts[new]), 13.5, colour, 700, "middle")
        x, y = at(most, counts[most])
        svg.text(x + 14, y + 5, words, 14, colour, 700)
    svg.text(right, 310, f"the difference: three prompts, {(beams - 1) * prompt // size} blocks", 13, MUTED, anchor="end")
    return svg.done()


FIGURES = {"lesson05_fork_and_copy.svg": fork_and_copy, "lesson05_beam_tree.svg": beam_tree,
           "lesson05_blocks_saved.svg": blocks_saved}
