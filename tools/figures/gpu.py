"""docs/gpu.md: two warps that use one shared buffer twice, with a barrier between the uses and without."""
from style import FAINT, GREEN, INK, LINE, MUTED, ORANGE, SKY, Svg

WRITE, READ = "#bfe3d5", SKY


def steps(svg, y, rows, barriers):
    """Of each warp its steps (begin, width, words, fill) in time, and the barriers across both."""
    bottom = y + 58 * len(rows) - 14
    for x, words in barriers:
        svg.line(x, y - 10, x, bottom + 6, GREEN, 2.5)
        svg.text(x, bottom + 22, words, 12.5, GREEN, 600, "middle")
    for i, row in enumerate(rows):
        top = y + 58 * i
        svg.text(22, top + 27, f"warp {i}", 14, INK, 600)
        for begin, width, words, fill in row:
            too_early = fill == ORANGE
            svg.rect(begin, top, width, 44, WRITE if too_early else fill, ORANGE if too_early else LINE, 6)
            svg.text(begin + width / 2, top + 27, words, 13, INK, 600 if too_early else 400, "middle")
    svg.line(80, bottom + 34, 612, bottom + 34, FAINT, 1.3, tip=True)
    svg.text(612, bottom + 52, "time", 12.5, MUTED, anchor="end")


def used_twice():
    svg = Svg(640, 580, "Two warps use one shared buffer twice: without a second barrier warp 0 writes again before warp 1 has read; "
                        "with it, it waits.")
    svg.panel(8, 8, 624, 278, "One barrier", "warp 0 is ahead: its second sum overwrites the first, which warp 1 has yet to read")
    steps(svg, 110, [[(84, 98, "writes sum 1", WRITE), (228, 82, "reads both", READ), (316, 104, "writes sum 2", ORANGE)],
                    [(104, 98, "writes sum 1", WRITE), (426, 82, "reads both", READ), (514, 104, "writes sum 2", WRITE)]],
          [(214, "barrier")])
    svg.panel(8, 294, 624, 278, "A second barrier", "no warp writes before both have read")
    steps(svg, 396, [[(84, 98, "writes sum 1", WRITE), (228, 82, "reads both", READ), (514, 104, "writes sum 2", WRITE)],
                     [(104, 98, "writes sum 1", WRITE), (396, 82, "reads both", READ), (514, 104, "writes sum 2", WRITE)]],
          [(214, "barrier"), (494, "barrier")])
    return svg.done()


FIGURES = {"gpu_used_twice.svg": used_twice}
