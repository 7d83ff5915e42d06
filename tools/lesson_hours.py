#!/usr/bin/env python3
"""Counts how long the lessons take, and writes it into the table of the root README.md.

Reading: the words of a lesson's README.md at 170 a minute, its page about the GPU not counted. Writing: the lines that its exercise takes out, two minutes each.
--check changes nothing, and exits with 1 if the table is wrong by more than two minutes.
"""

import argparse
import re
import sys

from exercises.lesson import ROOT, Lesson
from exercises.solutions import lines_taken

WORDS_A_MINUTE, MINUTES_A_LINE = 170, 2


def minutes(folder):
    return round(len((folder / "README.md").read_text(encoding="utf-8").split()) / WORDS_A_MINUTE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if the table is wrong")
    check = parser.parse_args().check
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    read = written = 0
    for folder in sorted((ROOT / "lessons").glob("[0-9][0-9]_*")):
        lines = lines_taken(Lesson(folder))
        read, written = read + minutes(folder), written + lines
        row = rf"(\(lessons/{folder.name}/README\.md\).*\| )\d+ min, \d+ lines \|"
        text, found = re.subn(row, rf"\g<1>{minutes(folder)} min, {lines} lines |", text)
        if found != 1:
            raise SystemExit(f"error: README.md has {found} rows for {folder.name}, wanted one that ends with `N min, N lines |`")
    hours = round((read + MINUTES_A_LINE * written) / 60)
    counted = f"{read} minutes and {written:,} lines, about {hours} hours"
    text, found = re.subn(r"\d+ minutes and [\d,]+ lines, about \d+ hours", counted, text)
    text = re.sub(r"(?<=<!-- number: )\d+ minutes, \d+ hours", f"{read} minutes, {hours} hours", text)
    if found != 1:
        raise SystemExit(f"error: README.md has {found} places like `{counted}`, wanted one")
    if check:
        told, now = (re.findall(r"(\d+) min, (\d+) lines \|", rows) for rows in (readme.read_text(encoding="utf-8"), text))
        far = [pair for pair in zip(told, now) if pair[0][1] != pair[1][1] or abs(int(pair[0][0]) - int(pair[1][0])) > 2]
        for old, new in far:
            print(f"README.md: {' min, '.join(old)} lines, and now it is {' min, '.join(new)}: run tools/lesson_hours.py")
        return 1 if far else 0
    readme.write_text(text, encoding="utf-8")
    print(f"{read} minutes of reading, {written:,} lines to write: {hours} hours")


if __name__ == "__main__":
    sys.exit(main())
