#!/usr/bin/env python3
"""Runs the commands whose output a text shows, and puts what they print into the text.

  refresh_outputs.py [--bin FOLDER] [--only TEXT] [--check] [FILE.md...]     (default: all texts)

A block is refreshed if a mark is above it:

  <!-- output: ./course run 1 --order -->
  ```
  ...
  ```

The command is run by bash in the repository's root; a pipe may cut the output. With --bin, `./course run 1` runs
FOLDER/lesson01, a build that is already there (and lines `./course kernel` are left alone). What a benchmark prints is
kept in docs/figures/data (tools/measured.py). --check changes nothing, names those that are not what their command prints, and exits with 1."""
import os
import pathlib
import re
import subprocess

from course_arguments import Parser, die, end_with
from course_builds import ROOT

TIMES = re.compile(r"\d (us|ms|ns|s)\b|/s\b")
DIGEST = re.compile(r"\b[0-9a-f]{16}\b")
BLOCK = re.compile(r"(<!-- output: ([^\n]+?) -->\n```[a-z]*)(.*?)(\n```)", re.S)


def command_of(words, binaries):
    if binaries is None:
        return words
    words = re.sub(r"\./course run (\d+)", lambda m: f"{binaries}/lesson{int(m[1]):02d}", words)
    words = re.sub(r"\./course (plan|replay|watch|route)\b", lambda m: f"{binaries}/{m[1]}", words)
    return re.sub(r"\./course run\b", f"{binaries}/ladder", words)


def texts():
    for folder in ("*.md", "docs/*.md", "lessons/**/*.md", "kernels/**/*.md", "instruments/**/*.md"):
        for path in sorted(ROOT.glob(folder)):
            if BLOCK.search(path.read_text(encoding="utf-8")):
                yield path.relative_to(ROOT) if pathlib.Path.cwd() == ROOT else path


def output_of(command):
    width_of_file = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=ROOT, env=width_of_file, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        die(f"this failed with {done.returncode}: {command}")
    return done.stdout.strip("\n")


def is_compared(shown):
    """Whether --check runs the command: of a block with times its digests must not change."""
    return bool(not TIMES.search(shown) or DIGEST.search(shown))


def main():
    parser = Parser(__doc__)
    parser.add_argument("--bin", type=lambda folder: pathlib.Path(folder).resolve())
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="", metavar="TEXT", help="blocks with this in their command")
    options = parser.parse_args()
    num_stale = 0
    for path in options.files or texts():
        text = path.read_text(encoding="utf-8")
        num_run = 0

        def fresh_block(m):
            nonlocal num_run, num_stale
            has_times = TIMES.search(m[3])
            if options.only not in m[2] or (options.check and not is_compared(m[3])):
                return m[0]
            if options.bin and not options.only and "course kernel" in m[2]:
                return m[0]  # another build's
            if options.bin and "course route" in m[2] and not (options.bin / "route").exists():
                return m[0]  # a build without libevent has none
            num_run += 1
            fresh = f"{m[1]}\n{output_of(command_of(m[2], options.bin))}{m[4]}"
            same = DIGEST.findall(fresh) == DIGEST.findall(m[0]) if has_times else fresh == m[0]
            if options.check and not same:
                num_stale += 1
                print(f"{path}: this prints something else now: {m[2]}")
            return fresh

        fresh = BLOCK.sub(fresh_block, text)
        if not options.check:
            path.write_text(fresh, encoding="utf-8")
        print(f"{path}: {num_run} of {len(BLOCK.findall(text))} blocks")
    return 1 if num_stale else 0


if __name__ == "__main__":
    end_with(main)
