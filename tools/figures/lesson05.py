"""Diagrams of lesson 05: the tree of a beam search, blocks saved."""
from plots import y_axis
from style import BLUE, EMPTY, FAINT, GREEN, LINE, MUTED, ORANGE, SKY, Svg

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

    y_axis(svg, left, right, range(0, highest + 1, 8), lambda count: at(0, count)[1], str)
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


FIGURES = {"lesson05_beam_tree.svg": beam_tree,
           "lesson05_blocks_saved.svg": blocks_saved}
