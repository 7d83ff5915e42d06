#!/usr/bin/env python3
"""Asks the programs for their options, and writes tools/options.txt, which ./course reads before they are built.

  refresh_options.py --bin FOLDER [--check] [PROGRAM...]     (default: all that ./course runs)

FOLDER has the programs (build/default/bin); of one that is not there the list stays as it is. --check changes nothing,
names each program whose options are others than the list's, and exits with 1."""
import os
import pathlib
import re
import subprocess
import textwrap

import course
import course_options
from course_arguments import Parser, end_with

HEAD = """\
# The options of each program, and of each option the value: one of some words, or a number (N), a folder (DIR), a name.
# ./course refuses and completes with them what is not built yet. tools/refresh_options.py writes this.
"""
NO_BREAK = "\N{NO-BREAK SPACE}"


def said(program, *words):
    return subprocess.run([program, *words], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "COLUMNS": "1000"}, check=False).stdout


def options_of(program):
    """As its help lists them. It names an option's words when it refuses an empty one."""
    options = {}
    # "  --model DIR    a folder", "  -h, --help    shows this help", and of an argument "  text TEXT    what it is"
    for name, value in re.findall(r"^  (?:-\w, )?(--(?!help)[\w-]+|\w+(?= [A-Z]))(?: (\S+))?(?:  |$)", said(program, "--help"), re.M):
        refused = re.search(r"'' is not allowed, wanted ([\w.-]+(?:, [\w.-]+)*(?: or [\w.-]+)?);", said(program, name, "", "--and-no-more"))
        options[name] = "|".join(re.split(", | or ", refused[1])) if value and refused else value
    return options


def known_programs():
    """What ./course runs with the options that follow, and each lesson's of it."""
    lessons = [folder.name[:2] for folder in course.lesson_folders()]
    for command in course.COMMANDS.values():
        if command.run in (course.runs.program, course.runs.bench):
            yield from filter(None, dict.fromkeys([command.builds, *map(command.of_lesson.format, lessons)]))


def as_text(programs):
    text = HEAD
    for program, options in sorted(programs.items()):
        # An option and its value stay on one line.
        listed = ", ".join(f"{name}{NO_BREAK}{value}" if value else name for name, value in options.items())
        lines = textwrap.wrap(f"{program}: {listed}", 120, subsequent_indent="  ", break_on_hyphens=False)
        text += "\n".join(lines).replace(NO_BREAK, " ") + "\n"
    return text


def main():
    parser = Parser(__doc__)
    parser.add_argument("--bin", type=lambda folder: pathlib.Path(folder).resolve(), required=True)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("programs", nargs="*")
    asked = parser.parse_args()
    programs = dict(course_options.programs())
    built = [program for program in asked.programs or known_programs() if (asked.bin / program).is_file()]
    mistakes = 0
    for program in built:
        options = options_of(asked.bin / program)
        if asked.check and options != programs.get(program):
            mistakes += 1
            print(f"{program}: its options are others than in tools/options.txt; tools/refresh_options.py --bin {asked.bin} writes it")
        programs[program] = options
    if not asked.check:
        course_options.FILE.write_text(as_text(programs), encoding="utf-8")
    print(f"{len(built)} programs asked, {mistakes} with other options")
    return 1 if mistakes or not built else 0


if __name__ == "__main__":
    end_with(main)
