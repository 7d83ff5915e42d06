"""The picture of the top README: what each lesson does with K and V, step by step."""
from style import EMPTY, INK, MUTED, ORANGE, SKY, Svg

COMPUTED, KEPT, RESERVED = ORANGE, SKY, EMPTY
STEPS = 7
PROMPT = 3  # tokens of the prompt: the first pass computes them in both lessons
SLOTS = 12  # reserved in lesson 02


def no_cache(step, slot):
    return COMPUTED if slot < PROMPT + step else None


def flat_cache(step, slot):
    known = PROMPT + step
    if slot >= known:
        return RESERVED
    return COMPUTED if step == 0 or slot == known - 1 else KEPT


def rows_computed(colour_of):
    return sum(colour_of(step, slot) == COMPUTED for step in range(STEPS) for slot in range(SLOTS))


def grid(svg, x, y, colour_of):
    """One row of cells per step, one column per token slot."""
    size, gap = 21, 4
    for step in range(STEPS):
        svg.text(x, y + step * (size + gap) + 16, f"step {step + 1}", 12.5, MUTED)
        for slot in range(SLOTS):
            fill = colour_of(step, slot)
            if fill:
                svg.rect(x + 54 + slot * (size + gap), y + step * (size + gap), size, size, fill)


def draw():
    svg = Svg(920, 376, "Lesson 01 computes every row of K and V again in each step. Lesson 02 computes one row "
                        "and keeps the others in a slab. Both give the same bits.")
    svg.panel(20, 20, 400, 284, "01  No cache",
              f"recompute everything: {rows_computed(no_cache)} rows in {STEPS} steps")
    grid(svg, 44, 108, no_cache)
    svg.panel(500, 20, 400, 284, "02  A flat cache",
              f"keep K and V: {rows_computed(flat_cache)} rows, and a slab of memory")
    grid(svg, 524, 108, flat_cache)
    svg.text(460, 158, "=", 40, INK, 700, "middle")
    svg.text(460, 184, "same bits", 13, MUTED, 600, "middle")
    svg.legend(160, 344, [(COMPUTED, "K and V computed in this step", 250), (KEPT, "kept from before", 170),
                          (RESERVED, "reserved and empty", 0)])
    return svg.done()


FIGURES = {"overview.svg": draw}
