"""The house, for docs/architecture.md: floors that know only what is below, and the seams between them."""
from style import BLUE, EMPTY, GREEN, INK, MUTED, ORANGE, PAPER, SKY, Svg

LEFT, WIDTH, HEIGHT, GAP = 12, 448, 88, 8
SEAM_X = LEFT + WIDTH + 98  # the column of the seams
LESSONS = ["01 compute", "02 keep", "03 blocks", "04 walk", "05 share", "06 find", "07 evict", "08 serve",
           "09 guess", "10 forget", "11 offload", "12 save", "13 lend", "14 halve"]
# From above: name, what it is, colour of its edge.
FLOORS = [
    ("tests/   tools/", ["what no lesson owns: the ladder, golden",
                         "values, fuzzers, rules of the repository;",
                         "figures, planted bugs, the GPU check; site/"], MUTED),
    ("instruments/", ["what people use on real caches: plan,", "replay, watch, serve, load, route;",
                      "with their pages and tests"], GREEN),
    ("lessons/", [], ORANGE),
    ("viz/   simt/", ["scenes and motion, scenarios, the shell;", "window, browser, SVG. A GPU made of",
                      "fibers, and its page. Both know no lesson"], GREEN),
    ("programs/", ["what programs share: options, streaming,", "JSON, benchmarks"], BLUE),
    ("qwen3/", ["files of a model, tokenizer, the Qwen3", "forward pass, sampling, the rows of a pass"], BLUE),
    ("kernels/", ["one op = one header, a CPU twin, CUDA", "twins; matmul, norms, RoPE, ...; the fast",
                  "attention, once for all lessons"], SKY),
    ("common/", ["errors, JSON, threads, device memory and", "streams, tables and progress"], BLUE),
]
# Where the interface is, how far below that floor's middle its box stands, its name, and what passes through.
SEAMS = [("tests/   tools/", 42, "Engine", ["a lesson is one; the", "ladder compares all"]),
         ("viz/   simt/", 0, "Page", ["of a lesson: commands", "in, views out"]),
         ("qwen3/", -42, "Attention", ["called in every layer;", "a lesson is one"]),
         ("qwen3/", 42, "PassArrays", ["what a pass keeps", "on the device"])]


def top_of(name):
    return 12 + [floor[0] for floor in FLOORS].index(name) * (HEIGHT + GAP)


def floor(svg, name, lines, colour):
    y = top_of(name)
    svg.rect(LEFT, y, WIDTH, HEIGHT, PAPER, radius=10)
    svg.rect(LEFT, y, 7, HEIGHT, colour, colour, 3)
    for i, part in enumerate(name.split()):
        svg.text(LEFT + 18, y + HEIGHT / 2 + 6 + 22 * i - 11 * (len(name.split()) - 1), part, 15, weight=700)
    for i, line in enumerate(lines):
        svg.text(LEFT + 140, y + HEIGHT / 2 + 5 - 9.5 * (len(lines) - 1) + 19 * i, line, 13, MUTED)


def lessons(svg):
    y, width, columns = top_of("lessons/"), 80, 4
    rows = -(-len(LESSONS) // columns)
    height = (HEIGHT - 8) / rows - 4
    for i, name in enumerate(LESSONS):
        x, at = LEFT + 102 + i % columns * (width + 5), y + 6 + i // columns * (HEIGHT - 8) / rows
        svg.rect(x, at, width, height, EMPTY, radius=4)
        svg.text(x + width / 2, at + height / 2 + 4.5, name, 12, INK, anchor="middle")


def seam(svg, at, below, name, lines):
    y = top_of(at) + HEIGHT / 2
    svg.line(SEAM_X - 77, y + below, LEFT + WIDTH + 4, y + (20 if below > 0 else -20 if below else 0), ORANGE, 1.8, tip=True)
    svg.rect(SEAM_X - 75, y + below - 33, 154, 66, PAPER, ORANGE, 8)
    svg.text(SEAM_X + 2, y + below - 12, name, 15, weight=700, anchor="middle")
    for i, line in enumerate(lines):
        svg.text(SEAM_X + 2, y + below + 7 + 16 * i, line, 12, MUTED, anchor="middle")


def draw():
    height = 12 + len(FLOORS) * (HEIGHT + GAP) + 48
    svg = Svg(640, height,
              "The floors of the repository, from common at the bottom over kernels, qwen3, programs, "
              "viz and simt, lessons and instruments to tests, tools and site. Each includes only what is below. Four seams: PassArrays, "
              "Attention, Page, Engine.")
    for name, lines, colour in FLOORS:
        floor(svg, name, lines, colour)
    lessons(svg)
    for box in SEAMS:
        seam(svg, *box)
    svg.text(LEFT + 4, height - 36, "A floor includes itself and what is below; a lesson includes earlier lessons.", 13.5, INK, 600)
    svg.text(LEFT + 4, height - 14, "Boxes on the right: the seams.", 13, MUTED)
    return svg.done()


FIGURES = {"architecture.svg": draw}
