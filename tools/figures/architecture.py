"""The house, for docs/architecture.md: floors that know only what is below, and the seams between them."""
from style import BLUE, EMPTY, GREEN, INK, MUTED, ORANGE, PAPER, SKY, Svg

LEFT, WIDTH, HEIGHT, GAP = 24, 700, 74, 10
SEAM_X = LEFT + WIDTH + 150  # the column of the seams
LESSONS = ["01 compute", "02 keep", "03 blocks", "04 walk", "05 share", "06 find", "07 evict", "08 serve",
           "09 guess", "10 forget", "11 offload", "12 save"]
# From above: name, what it is, colour of its edge.
FLOORS = [
    ("tests/   tools/", ["what no lesson owns: the ladder, golden values, fuzzers, rules of the",
                         "repository; figures, planted bugs, the GPU check; site/"], MUTED),
    ("instruments/", ["what people use on real caches: plan, replay, watch, publish,", "serve, load, route; with their pages and tests"], GREEN),
    ("lessons/", [], ORANGE),
    ("viz/   simt/", ["scenes and motion, scenarios, the shell; window, browser, SVG.",
                      "A GPU made of fibers, and its page. Both know no lesson"], GREEN),
    ("programs/", ["what programs share: options, streaming, JSON, benchmarks"], BLUE),
    ("qwen3/", ["files of a model, tokenizer, the Qwen3 forward pass,", "sampling, the rows of a pass"], BLUE),
    ("kernels/", ["one op = one header, a CPU twin, CUDA twins; matmul, norms, RoPE, ...",
                  "kernels/attention/: the fast attention, once for all lessons"], SKY),
    ("common/", ["errors, JSON, threads, device memory and streams, tables and progress"], BLUE),
]
# Where the interface is, how far below that floor's middle its box stands, its name, and what passes through.
SEAMS = [("tests/   tools/", 42, "Engine", ["a lesson is one; the ladder", "runs them all, and compares"]),
         ("viz/   simt/", 0, "Page", ["a lesson's page: commands in,", "views and counters out"]),
         ("qwen3/", -42, "Attention", ["the pass calls it in every", "layer; a lesson is one"]),
         ("qwen3/", 42, "PassArrays", ["what a pass keeps on the", "device, packed once"])]


def top_of(name):
    return 24 + [floor[0] for floor in FLOORS].index(name) * (HEIGHT + GAP)


def floor(svg, name, lines, colour):
    y = top_of(name)
    svg.rect(LEFT, y, WIDTH, HEIGHT, PAPER, radius=10)
    svg.rect(LEFT, y, 7, HEIGHT, colour, colour, 3)
    svg.text(LEFT + 24, y + (HEIGHT + 12) / 2, name, 16, weight=700)
    for i, line in enumerate(lines):
        svg.text(LEFT + 210, y + HEIGHT / 2 + 5 - 9 * (len(lines) - 1) + 19 * i, line, 13, MUTED)


def lessons(svg):
    y, width, columns = top_of("lessons/"), 77, 6
    for i, name in enumerate(LESSONS):
        x, at = LEFT + 210 + i % columns * (width + 4), y + 8 + i // columns * 31
        svg.rect(x, at, width, 26, EMPTY, radius=5)
        svg.text(x + 5, at + 17, name, 10.5, INK)
        if i % columns:
            svg.line(x, at + 13, x - 4, at + 13, MUTED, 1.5)


def seam(svg, at, below, name, lines):
    y = top_of(at) + HEIGHT / 2
    svg.line(SEAM_X - 92, y + below, LEFT + WIDTH + 6, y + (20 if below > 0 else -20 if below else 0), ORANGE, 1.8, tip=True)
    svg.rect(SEAM_X - 90, y + below - 33, 214, 66, PAPER, ORANGE, 8)
    svg.text(SEAM_X + 17, y + below - 12, name, 15, weight=700, anchor="middle")
    for i, line in enumerate(lines):
        svg.text(SEAM_X + 17, y + below + 7 + 16 * i, line, 12, MUTED, anchor="middle")


def draw():
    height = 24 + len(FLOORS) * (HEIGHT + GAP) + 34
    svg = Svg(SEAM_X + 148, height,
              "The floors of the repository, from common at the bottom over kernels, qwen3, programs, "
              "viz and simt, lessons and instruments to tests, tools and site. Each includes only what is below. Four seams: PassArrays, "
              "Attention, Page, Engine.")
    for name, lines, colour in FLOORS:
        floor(svg, name, lines, colour)
    lessons(svg)
    for box in SEAMS:
        seam(svg, *box)
    y = height - 20
    svg.text(LEFT + 4, y, "A floor includes itself and what is below; a lesson includes earlier lessons.", 13.5, INK, 600)
    svg.text(SEAM_X + 124, y, "boxes on the right: the seams", 13, MUTED, anchor="end")
    return svg.done()


FIGURES = {"architecture.svg": draw}
