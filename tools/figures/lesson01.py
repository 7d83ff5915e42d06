"""Diagrams of lesson 01: the shapes of attention, one query, a warp, the tiles."""
from style import BLUE, EMPTY, GREEN, INK, LINE, MUTED, ORANGE, SKY, Svg


def attention_shapes():
    svg = Svg(640, 340, "One token's vector becomes 16 query heads, 8 key heads and 8 value heads of 128 numbers; "
                        "two query heads share one key head and one value head.", "One token in one layer of Qwen3-0.6B",
              "1,024 numbers in, (16 + 2 x 8) x 128 = 4,096 numbers out")
    svg.rect(24, 146, 58, 34, EMPTY)
    svg.text(53, 168, "x", 15, INK, 700, "middle")
    for y, words in ((198, "hidden"), (215, "[1024]")):
        svg.text(53, y, words, 13, MUTED, anchor="middle")
    left, step, gap = 256, 22.5, 4
    for y, name, matrix, heads in ((102, "Q", "W_q [1024, 2048]", 16), (178, "K", "W_k [1024, 1024]", 8),
                                   (254, "V", "W_v [1024, 1024]", 8)):
        svg.line(88, 163, 118, y - 4, MUTED, tip=True)
        svg.text(124, y, name, 15, INK, 700)
        svg.text(124, y + 18, matrix, 13, MUTED)
        svg.text(124, y + 36, f"{heads} heads x 128", 13, MUTED)
        for h in range(heads):
            fill = (BLUE, SKY)[h // 2 % 2] if name == "Q" else ORANGE if name == "K" else GREEN
            svg.rect(left + h * step * 16 / heads, y - 3, step * 16 / heads - gap, 24, fill)
    for h in range(16):
        svg.line(left + (h + 0.5) * step - 2, 125, left + (h // 2 + 0.5) * 2 * step - 2, 173, LINE)
    for h in range(8):
        svg.line(left + (h + 0.5) * 2 * step - 2, 201, left + (h + 0.5) * 2 * step - 2, 249, LINE)
    svg.text(24, 320, "Two query heads share a head of K and V. Later tokens need K and V again.", 14)
    return svg.done()


def one_query():
    weights = (0.07, 0.41, 0.05, 0.12, 0.35)
    words = ("The", "fox", "ran", "to", "its")
    svg = Svg(640, 276, "A query is compared with the keys of all tokens up to its own; softmax makes weights; "
                        "the output is the weighted sum of the values. Later tokens are masked.",
              "One query head of token 4", "it sees tokens 0 to 4; what comes later is masked")
    left, step = 140, 70
    for y, label in ((113, "q . k /"), (130, "sqrt(head_dim)"), (188, "softmax"), (235, "weight x v,"), (252, "summed")):
        svg.text(24, y, label, 13, MUTED)
    for t in range(6):
        x, seen = left + t * step, t < len(words)
        svg.text(x + 31, 98, f"{t}  {words[t]}" if seen else "5  next", 13, INK if seen else MUTED, anchor="middle")
        for y, name, fill in ((106, "k", ORANGE), (228, "v", GREEN)):
            svg.rect(x, y, 62, 25, fill if seen else EMPTY)
            svg.text(x + 31, y + 17, name if seen else "masked", 13, "#ffffff" if seen else MUTED, 600, "middle")
        if seen:
            height = 90 * weights[t]
            svg.rect(x + 11, 192 - height, 40, height, BLUE, BLUE, 2)
            svg.text(x + 31, 211, f"{weights[t]:.2f}", 13, MUTED, anchor="middle")
    svg.line(left + 6 * step - 4, 240, left + 6 * step + 18, 240, MUTED, tip=True)
    svg.text(left + 6 * step + 24, 245, "out", 15, INK, 700)
    return svg.done()


def tiles_and_groups():
    svg = Svg(640, 272, "The keys of a sequence are cut into tiles of 64 tokens, four tiles make a group; a group adds up its "
                        "tiles on top of each other, and groups are merged in order, first to last.",
              "One query against 620 keys", "the sums are always these, in this order, whatever the memory looks like")
    left, scale, keys = 24, 0.9, 620
    for tile in range(10):
        x, width = left + tile * 64 * scale, (min(tile * 64 + 64, keys) - tile * 64) * scale
        svg.text(x + 2, 95, str(tile * 64), 12, MUTED)
        svg.rect(x + 1.5, 101, width - 3, 34, SKY if tile // 4 % 2 == 0 else "#c7e3f3")
        svg.text(x + width / 2, 123, f"tile {tile}", 12.5, INK, anchor="middle")
        if tile % 4 == 3 or tile == 9:  # the group's last one
            svg.line(x + width / 2, 145, x + width / 2, 160, MUTED, tip=True)
        else:
            svg.line(x + width / 2, 145, x + width * 1.5 - 4, 145, MUTED, tip=True)
    svg.text(left + keys * scale + 4, 123, "619", 12, MUTED)
    for group in range(3):
        x, end = left + group * 256 * scale, left + min((group + 1) * 256, keys) * scale
        svg.rect(x + 1.5, 164, end - x - 3, 34, ORANGE)
        svg.text((x + end) / 2, 186, f"group {group}" + ": tile on top of tile" * (group < 2), 12.5, "#ffffff", 600, "middle")
        svg.line((x + end) / 2, 201, (x + end) / 2, 214, MUTED, tip=True)
    svg.rect(left + 1.5, 218, keys * scale - 3, 34, GREEN)
    svg.text(left + keys * scale / 2, 240, "result: groups merged, first to last; then acc / l", 13, "#ffffff", 600, "middle")
    return svg.done()


def one_warp():
    svg = Svg(640, 638, "One warp works on one query of 128 elements. Lane i holds elements i, i + 32, i + 64 and i + 96 of "
                        "q, k, v and acc; the score, m and l are the same in every lane.",
              "One warp, one query: which lane holds what",
              "head_dim 128, 32 lanes: each has 4 elements of every row, lane 5 those in orange")
    left, cell, chosen = 24, 16.6, 5
    middle = lambda lane: left + lane * cell + cell / 2 - 1

    def band(y, name, words, fill, rows=1, ranges=False):
        svg.named(left, y, name, words)
        height = 14 if rows > 1 else 17
        for row in range(rows):
            for lane in range(32):
                svg.rect(left + lane * cell, y + 8 + row * height, cell - 2, height - 2,
                         ORANGE if lane == chosen else fill, radius=2)
            if ranges:
                svg.text(left + 32 * cell + 6, y + 19 + row * height, f"{32 * row}-{32 * row + 31}", 12, MUTED)
    for lane in (0, chosen, 31):
        svg.text(middle(lane), 102, str(lane), 13, ORANGE if lane == chosen else MUTED,
                 700 if lane == chosen else 400, anchor="middle")
    svg.text(left + 32 * cell + 6, 102, "lane", 13, MUTED)
    band(124, "q", "read once", SKY, 4, True)
    band(209, "k of this key", "read in this turn", EMPTY, 4)
    band(294, "dot", "the lane's 4 products", BLUE)
    svg.named(left, 340, "warp_sum", "lane 5 swaps sums with lanes 21, 13, 1, 7 and 4")
    for turn in range(5):  # partners 16, 8, 4, 2 and 1 lanes away
        x, other, y = middle(chosen), middle(chosen ^ (16 >> turn)), 353 + 11 * turn
        svg.line(x, y, other, y, ORANGE, 1.5)
        for end in (x, other):
            svg.add(f"<circle cx='{end:.1f}' cy='{y}' r='3' fill='{ORANGE}'/>")
    band(424, "score, m, l", "the same in all lanes", GREEN)
    band(470, "v of this key", "read in this turn", EMPTY, 4)
    band(555, "acc", "acc * shrink + p * v", SKY, 4)
    return svg.done()


FIGURES = {"attention_shapes.svg": attention_shapes, "one_query.svg": one_query, "one_warp.svg": one_warp,
           "tiles_and_groups.svg": tiles_and_groups}
