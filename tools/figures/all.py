#!/usr/bin/env python3
"""Draws every figure: all.py [--out FOLDER]   (default: docs/figures)

Each module beside this one may have FIGURES, from file name to a function that returns the SVG's
text. The same input gives the same bytes. Prints what could not be read on a phone: wide pictures, small
letters, texts over borders or over other texts, colours without a dark one, and what has too little
contrast on a dark page."""
import argparse
import importlib
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description="Draws every figure.")
    parser.add_argument("--out", type=pathlib.Path, default=HERE.parents[1] / "docs" / "figures")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(HERE))
    sys.dont_write_bytecode = True
    faults = importlib.import_module("style").Svg.faults
    for module in sorted(HERE.glob("*.py")):
        if module.stem == "all":
            continue
        for name, draw in sorted(getattr(importlib.import_module(module.stem), "FIGURES", {}).items()):
            (out / name).write_text(draw(), encoding="utf-8")
            print(f"drew {name}", file=sys.stderr)
            for fault in faults:
                print(f"docs/figures/{name}:1: {fault}")
            faults.clear()


if __name__ == "__main__":
    main()
