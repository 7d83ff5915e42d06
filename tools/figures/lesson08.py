"""Lesson 08: what the scheduler's books cost, as its benchmark measured it."""
from plots import load
from style import BLUE, INK, LINE, MUTED, SKY, Svg


def books():
    rows = load("lesson08.json")["books"]
    row_height, top, left, right = 30, 92, 300, 570
    height = top + row_height * len(rows) + 46
    svg = Svg(640, height, "Nanoseconds of the scheduler's books for each block, or for each request and pass.")
    svg.panel(8, 8, 624, height - 16, "What the books cost", "nanoseconds for each block; the last one: for each request and pass")
    largest = max(row["nanoseconds"] for row in rows)
    step = 10 if largest <= 60 else 20 if largest <= 120 else 50
    x_of = lambda ns: left + (right - left) * ns / (step * -(-largest // step))
    bottom = top + row_height * len(rows)
    for tick in range(0, int(step * -(-largest // step)) + 1, step):
        svg.line(x_of(tick), top - 6, x_of(tick), bottom, LINE, 1)
        svg.text(x_of(tick), bottom + 18, f"{tick}", 12.5, MUTED, anchor="middle")
    for i, row in enumerate(rows):
        y = top + i * row_height
        svg.text(left - 14, y + 15, row["what"], 13.5, INK, anchor="end")
        fill = BLUE if row["of"] != "block" else SKY
        svg.rect(left, y + 3, max(x_of(row["nanoseconds"]) - left, 1), 17, fill)
        svg.text(x_of(row["nanoseconds"]) + 8, y + 16, f"{row['nanoseconds']:.1f}", 12.5, MUTED)
    return svg.done()


FIGURES = {"lesson08_books.svg": books}
