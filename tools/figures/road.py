"""Plots of the roads from plain to fast: docs/figures/data/*_road.json, written by ./course bench 4 --road and
./course bench-cuda --road."""
from plots import load
from style import BLUE, FAINT, GREEN, INK, LINE, MUTED, ORANGE, SKY, Svg

COLOURS = (ORANGE, BLUE, GREEN, SKY, FAINT)


def plot(name, title, legend):
    """Each step's share of the floor, a line for each case."""
    data = load(f"{name}.json")
    steps = data["steps"]
    left, right, top, bottom = 70, 614, 134, 394
    svg = Svg(640, 470 + 20 * len(steps), f"{title}: each step's share of the floor.")
    svg.panel(8, 8, 624, 454 + 20 * len(steps), title, f"share of {legend}, {data['device']}")
    x_of = lambda i: left + 30 + (right - left - 60) * i / (len(steps) - 1)
    y_of = lambda share: bottom - (bottom - top) * min(share, 1)
    for percent in range(0, 101, 20):
        y = y_of(percent / 100)
        svg.line(left, y, right, y, LINE if percent else MUTED, 1)
        svg.text(left - 10, y + 4, f"{percent} %", 12.5, MUTED, anchor="end")
    for i, step in enumerate(steps):
        svg.text(x_of(i), bottom + 24, str(i + 1), 14, INK, 600, "middle")
        svg.text(left, bottom + 52 + 20 * i, f"{i + 1}  {step['idea']}", 13.5, MUTED)
    at = 24
    places = [[(x_of(i), y_of(case["floor_seconds"] / step["seconds"][j])) if step["seconds"][j] > 0 else None
               for i, step in enumerate(steps)] for j, case in enumerate(data["cases"])]

    def covered(j, i):
        """Whether a later line goes through the same place."""
        return any(line[i] and abs(line[i][1] - places[j][i][1]) < 4 for line in places[j + 1:])

    for j, case in enumerate(data["cases"]):
        colour, square = COLOURS[j], j % 2 == 1
        runs = [[]]  # a step that cannot serve the case breaks the line
        for i, place in enumerate(places[j]):
            if place:
                runs[-1].append((i, place))
            elif runs[-1]:
                runs.append([])
        for run in runs:
            if len(run) > 1:
                svg.path([place for _, place in run], colour)
            for (i, start), (k, end) in zip(run, run[1:]):
                if covered(j, i) and covered(j, k):  # wider, to be seen on both sides of the other line
                    svg.path([start, end], colour, 7)
            for i, (x, y) in run:
                svg.dot(x, y, colour, square, 7.5 if covered(j, i) else 5)
        svg.dot(at + 5, top - 26, colour, square)
        at = svg.text(at + 16, top - 21, case["case"], 13.5, INK) + 20
    return svg.done()


FIGURES = {
    "lesson04_road.svg": lambda: plot("lesson04_road", "The road of paged attention", "a plain read of the same K and V"),
    "kernels_road.svg": lambda: plot("kernels_road", "The road of the matrix product",
                                     "a plain read of the weights (few rows), of the tensor cores' peak (2,048)")}
