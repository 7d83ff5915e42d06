"""Lesson 10: two tables for one sequence, and the hit that all groups agree on."""
from style import BLUE, EMPTY, GREEN, INK, MUTED, ORANGE, SKY, Svg

CELL, GAP = 21, 1  # a token, and the room between two
BLOCK = 4 * CELL + 3 * GAP


def block_x(left, i):
    return left + i * (BLOCK + 9)


def tables():
    """19 tokens are computed in blocks of 4; a window of 8."""
    svg = Svg(640, 520, "One sequence of 19 tokens. The table of the full group has five blocks; that of the group with a "
              "window of 8 has the null block three times and then two blocks. The three that fell out are free.")
    svg.panel(8, 8, 624, 504, "Two tables for one sequence", "blocks of 4 tokens, a window of 8; 19 tokens are computed")
    left = 138
    svg.text(left - 12, 152, "tokens", 13.5, INK, 600, "end")
    for token in range(20):
        x = block_x(left, token // 4) + token % 4 * (CELL + GAP)
        seen = token >= 12
        svg.rect(x, 136, CELL, CELL, ORANGE if token == 19 else SKY if seen else EMPTY)
        svg.text(x + CELL / 2, 151, str(token), 12, "#ffffff" if token == 19 else INK if seen else MUTED, anchor="middle")
    svg.brace(block_x(left, 3), block_x(left, 4) + BLOCK, 130, "what a windowed layer sees", up=True)
    for row, (name, words, entries) in enumerate((("group 0", "sees all tokens", [1, 3, 5, 7, 9]),
                                                  ("group 1", "a window of 8", [0, 0, 0, 8, 10]))):
        y = 188 + row * 76
        svg.text(left - 12, y + 16, name, 13.5, INK, 600, "end")
        svg.text(left - 12, y + 33, words, 12, MUTED, anchor="end")
        for i, entry in enumerate(entries):
            x = block_x(left, i)
            svg.rect(x, y, BLOCK, 38, SKY if entry else EMPTY)
            svg.text(x + BLOCK / 2, y + 24, f"block {entry}" if entry else "null", 13.5, INK if entry else MUTED, 600 if entry else 400, "middle")
            svg.text(x + BLOCK / 2, y + 54, f"entry {i}", 12, MUTED, anchor="middle")
    svg.text(left - 12, 368, "the pool", 13.5, INK, 600, "end")
    svg.text(left - 12, 385, "one for all", 12, MUTED, anchor="end")
    for block in range(1, 13):
        x = left + (block - 1) * 40
        fallen, held = block in (2, 4, 6), block in (1, 3, 5, 7, 8, 9, 10)
        svg.rect(x, 354, 35, 38, SKY if held else "#bfe3d5" if fallen else EMPTY, GREEN if fallen else "#cbd2d9")
        svg.text(x + 17.5, 378, str(block), 13.5, INK if held or fallen else MUTED, 600 if held else 400, "middle")
    svg.legend(28, 432, [(SKY, "held"), ("#bfe3d5", "fell out: free, and can still be found"), (EMPTY, "free")])
    svg.text(28, 468, "Token 13 is at entry 13 / 4 = 3, place 13 % 4 = 1, in both tables.", 13.5, INK)
    return svg.done()


def hit():
    """The groups of the test "two windows that disagree are asked until nothing changes"."""
    groups = [("group 0", "sees all: every block", [1, 1, 1, 1, 1, 1]),
              ("group 1", "a window of 5: the last block", [1, 1, 0, 1, 1, 0]),
              ("group 2", "a window of 9: the last two", [1, 1, 1, 0, 1, 1])]
    asked = [(0, 6), (1, 5), (2, 3), (1, 2), (2, 2)]  # group, blocks of the hit after it
    svg = Svg(640, 436, "Three groups and six blocks of a prompt. Group 0 has all six. Group 1 lacks blocks 2 and 5, group 2 "
              "lacks block 3. The hit shrinks from six to five, to three, to two blocks, and there all agree.")
    svg.panel(8, 8, 624, 420, "The longest hit that all groups agree on", "blocks of 4 tokens; what is not found in a group is empty")
    left, step = 222, 66
    for i in range(6):
        svg.text(left + i * step + 30, 94, f"block {i}", 12, MUTED, anchor="middle")
    for row, (name, words, found) in enumerate(groups):
        y = 104 + row * 44
        svg.text(left - 12, y + 14, name, 13.5, INK, 600, "end")
        svg.text(left - 12, y + 30, words, 12, MUTED, anchor="end")
        for i, there in enumerate(found):
            svg.rect(left + i * step, y, 60, 32, SKY if there else EMPTY)
            svg.text(left + i * step + 30, y + 21, "found" if there else "lost", 12, INK if there else MUTED, anchor="middle")
    for i, (group, blocks) in enumerate(asked):
        y = 254 + i * 31
        svg.text(left - 12, y + 14, f"{i + 1}. {groups[group][0]} is asked", 12.5, INK, anchor="end")
        svg.rect(left, y, blocks * step - 6, 19, BLUE if i < 4 else GREEN)
        what = f"{blocks} blocks" if i < 4 else f"{blocks} blocks: nothing has changed"
        inside = blocks == 6  # no room beside it
        svg.text(left + blocks * step - (14 if inside else -2), y + 14, what, 12.5, "#ffffff" if inside else INK, anchor="end" if inside else "start")
    return svg.done()


FIGURES = {"lesson10_tables.svg": tables, "lesson10_hit.svg": hit}
