"""Diagrams of lesson 01: the shapes of attention, the rows computed again, the tiles."""
from style import BLUE, EMPTY, FAINT, GREEN, INK, LINE, MUTED, ORANGE, SKY, Svg


def attention_shapes():
    svg = Svg(920, 372, "One token's vector becomes 16 query heads, 8 key heads and 8 value heads of 128 numbers; "
                        "two query heads share one key head and one value head.")
    svg.panel(20, 20, 880, 332, "One token in one layer of Qwen3-0.6B",
              "1,024 numbers in, (16 + 2 x 8) x 128 = 4,096 numbers out")
    svg.rect(44, 150, 96, 34, EMPTY)
    svg.text(92, 172, "x", 15, INK, 700, "middle")
    svg.text(92, 204, "hidden [1024]", 12.5, MUTED, anchor="middle")
    heads, left, size, gap = 16, 326, 22, 5
    colours = (BLUE, SKY)
    for y, name, width, fill in ((100, "W_q  [1024, 2048]", 16, None), (180, "W_k  [1024, 1024]", 8, ORANGE),
                                 (260, "W_v  [1024, 1024]", 8, GREEN)):
        svg.line(146, 167, 196, y + 12, MUTED, tip=True)
        svg.text(204, y + 17, name, 12.5, MUTED)
        for h in range(width):
            if width == heads:
                svg.rect(left + h * (size + gap), y, size, size, colours[h // 2 % 2])
            else:
                svg.rect(left + h * 2 * (size + gap), y, 2 * size + gap, size, fill)
    end = left + heads * (size + gap) - gap
    for y, name, shape in ((100, "Q", "16 heads x 128"), (180, "K", "8 heads x 128"), (260, "V", "8 heads x 128")):
        svg.text(end + 14, y + 12, name, 15, INK, 700)
        svg.text(end + 14, y + 28, shape, 11.5, MUTED)
    for h in range(heads):
        x = left + h * (size + gap) + size / 2
        svg.line(x, 126, left + h // 2 * 2 * (size + gap) + size + gap / 2, 178, LINE)
    for h in range(heads // 2):
        x = left + h * 2 * (size + gap) + size + gap / 2
        svg.line(x, 206, x, 258, LINE)
    svg.text(left, 312, "Two query heads share one head of K and one of V: grouped-query attention.", 13, MUTED)
    svg.text(left, 332, "Only K and V are needed again by later tokens.", 13, MUTED)
    return svg.done()


def one_query():
    weights = (0.07, 0.41, 0.05, 0.12, 0.35)
    words = ("The", "fox", "ran", "to", "its")
    svg = Svg(920, 326, "A query is compared with the keys of all tokens up to its own; softmax makes weights; "
                        "the output is the weighted sum of the values. Later tokens are masked.")
    svg.panel(20, 20, 880, 286, "One query head of token 4",
              "it sees tokens 0 to 4; what comes later is masked")
    left, step = 230, 96
    for row, label in ((142, "q . k / sqrt(head_dim)"), (202, "softmax"), (268, "weight x v, summed")):
        svg.text(44, row, label, 13, MUTED)
    for t in range(6):
        x = left + t * step
        seen = t < len(words)
        svg.text(x + 34, 118, f"{t}  {words[t]}" if seen else "5  next", 12.5, INK if seen else MUTED, anchor="middle")
        svg.rect(x, 126, 68, 22, ORANGE if seen else EMPTY)
        svg.text(x + 34, 142, "k" if seen else "masked", 12, "#ffffff" if seen else MUTED, 600, "middle")
        if seen:
            height = 60 * weights[t]
            svg.rect(x + 14, 210 - height, 40, height, BLUE, BLUE, 2)
            svg.text(x + 34, 226, f"{weights[t]:.2f}", 12, MUTED, anchor="middle")
        svg.rect(x, 250, 68, 22, GREEN if seen else EMPTY)
        svg.text(x + 34, 266, "v" if seen else "masked", 12, "#ffffff" if seen else MUTED, 600, "middle")
    svg.line(left + 6 * step - 18, 261, left + 6 * step + 6, 261, MUTED, tip=True)
    svg.text(left + 6 * step + 14, 266, "out", 14, INK, 700)
    return svg.done()


def recomputed_rows():
    steps, size, gap = 8, 24, 5
    svg = Svg(920, 372, "Step N computes N rows of K and V, and all but the last are the same as in the step before.")
    svg.panel(20, 20, 880, 332, "Rows of K and V that each step computes",
              "from a prompt of one token; a row is one token in one layer")
    left, top = 120, 116
    for step in range(steps):
        y = top + step * (size + gap)
        svg.text(44, y + 17, f"step {step + 1}", 12.5, MUTED)
        for t in range(step + 1):
            svg.rect(left + t * (size + gap), y, size, size, ORANGE if t == step else "url(#hatch)")
        n = step + 1
        svg.text(left + steps * (size + gap) + 30, y + 17, f"{n}", 13, INK, 600, "end")
        svg.text(left + steps * (size + gap) + 120, y + 17, f"{n * (n + 1) // 2}", 13, INK, 600, "end")
    head = left + steps * (size + gap)
    svg.text(head + 30, top - 10, "rows", 12.5, MUTED, anchor="end")
    svg.text(head + 120, top - 10, "rows so far", 12.5, MUTED, anchor="end")
    x = head + 176
    svg.legend(x, top + 30, ((ORANGE, "new in this step", 0),))
    svg.legend(x, top + 60, (("url(#hatch)", "computed before,", 0),))
    svg.text(x + 24, top + 79, "the same bits again", 13.5, MUTED)
    svg.text(x, top + 128, "n (n + 1) / 2", 21, INK, 700)
    svg.text(x, top + 152, "rows in n steps, where n would do", 13.5, MUTED)
    svg.text(x, top + 176, "512 steps: 131,328 rows for 512", 13.5, MUTED)
    return svg.done()


def tiles_and_groups():
    svg = Svg(920, 318, "The keys of a sequence are cut into tiles of 64 tokens, four tiles make a group; "
                        "tiles and groups are merged in order, first to last.")
    svg.panel(20, 20, 880, 278, "One query against 620 keys",
              "the sums are always these, in this order, whatever the memory looks like")
    left, scale = 60, 800 / 640
    for tile in range(10):
        begin, end = tile * 64, min(tile * 64 + 64, 620)
        x, width = left + begin * scale, (end - begin) * scale
        svg.rect(x + 1.5, 112, width - 3, 34, SKY if tile // 4 % 2 == 0 else "#c7e3f3")
        svg.text(x + width / 2, 134, f"tile {tile}", 12, INK, anchor="middle")
        svg.text(x + 2, 105, f"{begin}", 11, MUTED)
        svg.line(x + width / 2, 150, x + width / 2, 176, MUTED, tip=True)
    svg.text(left + 620 * scale + 4, 134, "619", 11, MUTED)
    for group in range(3):
        x, end = left + group * 256 * scale, left + min((group + 1) * 256, 620) * scale
        svg.rect(x + 1.5, 180, end - x - 3, 34, ORANGE)
        svg.text((x + end) / 2, 202, f"group {group}: its tiles merged, first to last", 12, "#ffffff", 600, "middle") \
            if group < 2 else svg.text((x + end) / 2, 202, "group 2", 12, "#ffffff", 600, "middle")
        svg.line((x + end) / 2, 218, (x + end) / 2, 240, MUTED, tip=True)
    svg.rect(left + 1.5, 244, 620 * scale - 3, 34, GREEN)
    svg.text(left + 310 * scale, 266, "result: the groups merged, first to last; then acc / l", 12, "#ffffff", 600,
             "middle")
    return svg.done()


def one_warp():
    svg = Svg(920, 600, "One warp works on one query of 128 elements. Lane i holds elements i, i + 32, i + 64 and i + 96 of "
                        "q, k, v and acc; the score, m and l are the same in every lane.")
    svg.panel(20, 20, 880, 560, "One warp, one query: which lane holds what",
              "head_dim 128, 32 lanes: each has 4 elements of every row, lane 5 those in orange")
    left, cell, chosen = 176, 21, 5

    def lanes(y, height, fill, rows=1):
        for row in range(rows):
            for lane in range(32):
                svg.rect(left + lane * cell, y + row * height, cell - 2, height - 2,
                         ORANGE if lane == chosen else fill, radius=2)

    def label(y, name, words, colour=INK):
        svg.text(44, y, name, 14, colour, 700)
        svg.text(44, y + 17, words, 12, MUTED)

    for lane in (0, chosen, 31):
        svg.text(left + lane * cell + cell / 2 - 1, 104, str(lane), 11.5, ORANGE if lane == chosen else MUTED, anchor="middle")
    svg.text(44, 104, "lane", 12, MUTED)
    label(130, "q", "read once")
    lanes(112, 13, SKY, 4)
    label(196, "k of this key", "read in this turn")
    lanes(178, 13, EMPTY, 4)
    for row in range(4):
        for y in (112, 178):
            svg.text(left + 32 * cell + 6, y + 10 + 13 * row, f"{32 * row}-{32 * row + 31}", 10.5, FAINT)
    label(259, "dot", "the lane's 4 products")
    lanes(248, 17, BLUE)
    label(303, "warp_sum", "lane 5 swaps sums with")
    svg.text(44, 337, "21, 13, 1, 7, 4", 12, MUTED)
    for turn in range(5):  # partners 16, 8, 4, 2 and 1 lanes away
        x, other = (left + lane * cell + cell / 2 - 1 for lane in (chosen, chosen ^ (16 >> turn)))
        y = 282 + 12 * turn
        svg.line(x, y, other, y, ORANGE, 1.5)
        for end in (x, other):
            svg.add(f"<circle cx='{end:.1f}' cy='{y}' r='3' fill='{ORANGE}'/>")
    label(366, "score, m, l", "the same in all lanes")
    lanes(354, 17, GREEN)
    label(410, "v of this key", "read in this turn")
    lanes(392, 13, EMPTY, 4)
    label(476, "acc", "acc * shrink + p * v")
    lanes(458, 13, SKY, 4)
    svg.text(44, 540, "Neighbouring lanes have neighbouring elements, so a row of cells is one piece of memory: 64 bytes of bf16.",
             13, INK)
    svg.text(44, 562, "Only the score needs all 128 elements, so only there do the lanes talk to each other.", 13, INK)
    return svg.done()


FIGURES = {"attention_shapes.svg": attention_shapes, "one_query.svg": one_query, "one_warp.svg": one_warp,
           "recomputed_rows.svg": recomputed_rows, "tiles_and_groups.svg": tiles_and_groups}
