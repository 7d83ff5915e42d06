"""Lesson 10: the hit that all groups agree on."""
from style import BLUE, EMPTY, GREEN, INK, MUTED, SKY, Svg


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


FIGURES = {"lesson10_hit.svg": hit}
