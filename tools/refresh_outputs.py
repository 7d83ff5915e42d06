#!/usr/bin/env python3
"""Runs the commands whose output a text shows, and puts what they print into the text.

  refresh_outputs.py [--bin FOLDER] FILE.md...

A block is refreshed if a mark stands above it:

  <!-- output: ./course run 1 --order -->
  ```
  ...
  ```

The command is run by bash in the repository's root; a pipe may cut the output. With --bin,
`./course run 1` runs FOLDER/lesson01 and `./course bench 1` FOLDER/lesson01_bench: a build that is
already there. Numbers that a benchmark writes go to docs/figures/data, and the plots are drawn again."""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"(<!-- output: (.+?) -->\n```[a-z]*)(.*?)(\n```)", re.S)


def command_of(words, binaries):
    if binaries is None:
        return words
    words = re.sub(r"\./course run (\d+)", lambda m: f"{binaries}/lesson{int(m[1]):02d}", words)
    words = re.sub(r"\./course bench (\d+)",
                   lambda m: (f"{binaries}/lesson{int(m[1]):02d}_bench "
                              f"--json docs/figures/data/lesson{int(m[1]):02d}.json"), words)
    return re.sub(r"\./course run\b", f"{binaries}/ladder", words)


def output_of(command):
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"this failed with {done.returncode}: {command}")
    return done.stdout.strip("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=lambda folder: pathlib.Path(folder).resolve())
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    for path in options.files:
        text = path.read_text(encoding="utf-8")
        fresh = BLOCK.sub(lambda m: f"{m[1]}\n{output_of(command_of(m[2], options.bin))}{m[4]}", text)
        path.write_text(fresh, encoding="utf-8")
        print(f"{path}: {len(BLOCK.findall(text))} blocks")
    subprocess.run([sys.executable, ROOT / "tools" / "figures" / "all.py"], check=True)


if __name__ == "__main__":
    main()
