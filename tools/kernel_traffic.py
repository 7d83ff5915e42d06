#!/usr/bin/env python3
"""What the loads and stores of a kernel cost, from the trace of a simulated GPU (simt/trace.cpp).

  kernel_traffic.py TRACE [--source FILE.cu] [--svg OUT.svg]

A table with a row for each line of kernel code: requests of a warp, 32-byte sectors of global memory
(or passes through the banks of shared memory) for each, the least that could do, and the share of the
bytes moved that were wanted. --source prints the file with these numbers in its margin; --svg draws one
request of each line: which lane reads where.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys


def lines_of(rows):
    """(file, line) of each instruction: of what was inlined there, the first that is kernel code."""
    by_program = collections.defaultdict(list)
    for row in rows:
        by_program[row["program"]].append(row["at"])
    found = {}
    for program, addresses in by_program.items():
        out = subprocess.run(["addr2line", "-a", "-i", "-e", program, *map(hex, addresses)],
                             capture_output=True, text=True, check=True).stdout
        at = None
        for line in out.splitlines():
            if line.startswith("0x"):
                at = program, int(line, 16)
                continue
            file, _, number = line.split(" ")[0].rpartition(":")
            is_kernel = file.endswith((".cu", ".cuh"))
            if at not in found or (is_kernel and not found[at][0].endswith((".cu", ".cuh"))):
                found[at] = (file, int(number) if number.isdigit() else 0)
    return found


def by_line(rows):
    """The rows summed up for each place in the source, the dearest first."""
    places = lines_of(rows)
    sums = {}
    for row in rows:
        key = (*places[row["program"], row["at"]], row["space"], row["op"], row["bytes"])
        total = sums.setdefault(key, dict.fromkeys(("requests", "wanted", "moved", "best"), 0) | {"example": row})
        for name in ("requests", "wanted", "moved", "best"):
            total[name] += row[name]
    return sorted(sums.items(), key=lambda item: -item[1]["moved"])


def source_line(file, number):
    try:
        return pathlib.Path(file).read_text().splitlines()[number - 1].strip()
    except (OSError, IndexError):
        return ""


def table(sums):
    for space, unit in (("global", "sectors of 32 bytes"), ("shared", "passes through 32 banks")):
        here = [(key, total) for key, total in sums if key[2] == space]
        if not here:
            continue
        print(f"\n{space} memory: {unit}\n")
        print(f"{'line':<28} {'op':<9} {'requests':>9} {'per request':>11} {'least':>6} {'wanted':>7}  code")
        for (file, number, _, op, size), t in here:
            share = 100 * (t["wanted"] / (32 * t["moved"]) if space == "global" else t["best"] / t["moved"])
            place = f"{pathlib.Path(file).name}:{number}"
            print(f"{place:<28} {op + ' ' + str(size):<9} {t['requests']:>9,} {t['moved'] / t['requests']:>11.2f} "
                  f"{t['best'] / t['requests']:>6.2f} {share:>5.0f} %  {source_line(file, number)[:48]}")
        moved, best = (sum(t[name] for _, t in here) for name in ("moved", "best"))
        print(f"all: {moved:,} {unit}, {best:,} at least")


def annotate(sums, source):
    margin = collections.defaultdict(list)
    for (file, number, space, op, _), t in sums:
        if pathlib.Path(file).name == pathlib.Path(source).name:
            margin[number].append(f"{op} {t['moved'] / t['requests']:.1f} of {t['best'] / t['requests']:.1f} {space[0]}")
    print(f"\n{source}: sectors (g) or passes (s) of a request, and the least\n")
    for number, line in enumerate(pathlib.Path(source).read_text().splitlines(), 1):
        print(f"{'; '.join(margin[number])[:34]:>34} | {line}")


def draw(sums, path):
    """One request of each line: a row of lanes, and the sectors or banks that they touch."""
    rows = []
    y = 0
    for (file, number, space, op, size), t in sums[:12]:
        lanes = {int(lane): at for lane, at in t["example"]["lanes"].items()}
        unit = 32 if space == "global" else 4
        units = sorted({(at + b) // unit % (32 if space == "shared" else 1 << 62) for at in lanes.values() for b in (0, size - 1)})
        place = {u: i for i, u in enumerate(units)}
        rows.append(f'<text x="8" y="{y + 18}" class="t">{pathlib.Path(file).name}:{number}  {op} of {size} bytes: '
                    f'{len(units)} {"sectors" if space == "global" else "banks"}</text>')
        for lane in range(32):
            used = lane in lanes
            rows.append(f'<rect x="{8 + lane * 24}" y="{y + 26}" width="22" height="16" class="{"on" if used else "off"}"/>')
            if used:
                u = place[lanes[lane] // unit % (32 if space == "shared" else 1 << 62)]
                rows.append(f'<line x1="{19 + lane * 24}" y1="{y + 42}" x2="{8 + (u + 0.5) * 768 / len(units):.0f}" y2="{y + 72}" class="l"/>')
        for i in range(len(units)):
            width = 768 / len(units)
            rows.append(f'<rect x="{8 + i * width:.1f}" y="{y + 72}" width="{max(width - 2, 1):.1f}" height="14" class="s"/>')
        y += 104
    pathlib.Path(path).write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 784 {y}" font-family="sans-serif" font-size="13">'
        "<style>.t{fill:#444}.on{fill:#4878d0}.off{fill:#ddd}.s{fill:#ee854a}.l{stroke:#888;stroke-width:.8}"
        "@media (prefers-color-scheme:dark){.t{fill:#ddd}.off{fill:#444}}</style>" + "".join(rows) + "</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=pathlib.Path)
    parser.add_argument("--source", help="print this file with the numbers in its margin")
    parser.add_argument("--svg", help="draw one request of each line")
    options = parser.parse_args()
    try:
        rows = [json.loads(line) for line in options.trace.read_text().splitlines()]
    except OSError as error:
        sys.exit(f"error: {error}")
    if not rows:
        sys.exit(f"error: {options.trace}: no load or store was traced; wanted a kernel that ran in a simt-trace build")
    sums = by_line(rows)
    table(sums)
    if options.source:
        annotate(sums, options.source)
    if options.svg:
        draw(sums, options.svg)
        print(f"\n{options.svg}: one request of each line")


if __name__ == "__main__":
    main()
