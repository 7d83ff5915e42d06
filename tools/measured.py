#!/usr/bin/env python3
"""Puts what a benchmark measured into the texts: measured.py   (docs/figures/data to lessons/, kernels/ and docs/)

A text says where, and by which name:

  <!-- measured: lesson04_road -->
  ...
  <!-- end of measured -->

Between the marks come the table in docs/figures/data/NAME.json and the plot docs/figures/NAME.svg, which
tools/figures/all.py has drawn. ./course bench 4 --road and ./course bench-cuda --road end with this."""
import json
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- measured: (\w+) -->\n).*?(<!-- end of measured -->)", re.S)


def measured(name, folder):
    path = ROOT / "docs" / "figures" / "data" / f"{name}.json"
    if not path.exists():
        return "*Not measured yet.*\n"
    data = json.loads(path.read_text(encoding="utf-8"))
    figure = os.path.relpath(ROOT / "docs" / "figures" / f"{name}.svg", folder)
    what = data["what"].splitlines()
    return (f"```\n{data['device']}\n{data['what']}\n\n{data['table'].rstrip()}\n```\n\n"
            f"![{what[0]}: each step's share of the floor]({figure})\n")


def main():
    for path in sorted(p for folder in ("lessons", "kernels", "docs") for p in (ROOT / folder).rglob("*.md")):
        text = path.read_text(encoding="utf-8")
        fresh = BLOCK.sub(lambda m: m[1] + measured(m[2], path.parent) + m[3], text)
        if fresh != text:
            path.write_text(fresh, encoding="utf-8")
            print(f"filled {path.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
