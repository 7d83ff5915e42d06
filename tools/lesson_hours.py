#!/usr/bin/env python3
"""Counts how long the lessons take, and writes it into the table of the root README.md.

Reading: the words of a lesson's README.md at 170 a minute, its page about the GPU not counted. Writing: the lines that its exercise takes out, two minutes each.
--check changes nothing, and exits with 1 if the table is wrong by more than two minutes.
"""

import re
import sys

from course_arguments import die, end_with
from exercises.lesson import ROOT, Lesson
from exercises.solutions import lines_taken

README = ROOT / "README.md"
WORDS_A_MINUTE, MINUTES_A_LINE = 170, 2


def main():
    text = README.read_text(encoding="utf-8")
    read = written = 0
    wrong = []
    for folder in sorted((ROOT / "lessons").glob("[0-9][0-9]_*")):
        words = (folder / "README.md").read_text(encoding="utf-8").split()
        minutes, lines = round(len(words) / WORDS_A_MINUTE), lines_taken(Lesson(folder))
        read, written = read + minutes, written + lines
        row = re.search(rf"(\(lessons/{folder.name}/README\.md\).*\| )(\d+) min, (\d+) lines \|", text)
        if not row:
            die(f"README.md has no row for {folder.name}, wanted one that ends with `N min, N lines |`")
        if int(row[3]) != lines or abs(int(row[2]) - minutes) > 2:
            wrong.append(f"README.md: {row[2]} min, {row[3]} lines, and now it is {minutes} min, {lines} lines: run tools/lesson_hours.py")
        text = text.replace(row[0], f"{row[1]}{minutes} min, {lines} lines |")
    hours = round((read + MINUTES_A_LINE * written) / 60)
    counted = f"{read} minutes and {written:,} lines, about {hours} hours"
    text, found = re.subn(r"\d+ minutes and [\d,]+ lines, about \d+ hours", counted, text)
    text = re.sub(r"(?<=<!-- number: )\d+ minutes, \d+ hours", f"{read} minutes, {hours} hours", text)
    if found != 1:
        die(f"README.md has {found} places like `{counted}`, wanted one")
    if sys.argv[1:] == ["--check"]:
        print("".join(f"{line}\n" for line in wrong), end="")
        return 1 if wrong else 0
    README.write_text(text, encoding="utf-8")
    print(f"{read} minutes of reading, {written:,} lines to write: {hours} hours")
    return 0


if __name__ == "__main__":
    end_with(main)
