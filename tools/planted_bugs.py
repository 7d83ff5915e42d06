#!/usr/bin/env python3
"""Puts one bug at a time into a copy of the course's real code, and sees a test find it.

    ./course planted                     all bugs, as a table
    python3 tools/planted_bugs.py --bin BUILD_FOLDER [--only TEXT] [--case NAME] [--jobs N] [--show]
    python3 tools/planted_bugs.py --check           only: does every bug still have its place?

Each lesson lists its bugs in lessons/NN_topic/test/planted.txt. The first line names the test programs
that must find them, the first one first; then, between empty lines, one paragraph for each bug:

    tests: lesson06_test lesson07_test

    block_manager.cpp: the last token may be found, too
    - end < tokens.size()
    + end <= tokens.size()

The code after the minus signs must be in the file exactly once (spaces and line ends do not count); what
stands after the plus signs takes its place. The file's name is meant from the lesson's folder, or
from the repository's root. It is compiled alone and linked ahead of the
libraries with the tests; nothing in the working tree changes. A bug counts as found if a test fails,
or does not end. Exit code 1 if one is not found.
"""

import argparse
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Whole generations find most bugs too, but take longer.
FAST = {"KV_RANDOM_OPS": "100000", "KV_THREADS": "1"}


@dataclasses.dataclass
class Bug:
    place: str  # for messages
    source: pathlib.Path
    what: str
    old: str
    new: str
    tests: list

    def pattern(self):
        return re.compile(r"\s+".join(re.escape(word) for word in self.old.split()))

    def planted(self):
        return self.pattern().sub(lambda _: self.new, self.source.read_text())


def bugs_of(path):
    """The bugs of one planted.txt."""
    head, *paragraphs = path.read_text().strip().split("\n\n")
    where = path.relative_to(ROOT)
    if not head.startswith("tests:"):
        sys.exit(f"error: {where}: found '{head}', wanted a first line 'tests: PROGRAM ...'")
    bugs = []
    for paragraph in paragraphs:
        title, *lines = [line for line in paragraph.split("\n") if not line.startswith("#")]
        file, _, what = title.partition(": ")
        code = {"-": [], "+": []}
        for line in lines:
            if line[:2].rstrip() not in code:
                sys.exit(f"error: {where}: '{title}': found '{line}', wanted '- CODE' or '+ CODE'")
            code[line[0]].append(line[2:])
        if not what or not code["-"]:
            sys.exit(f"error: {where}: found '{title}', wanted 'FILE: WHAT IS WRONG' and lines '- CODE'")
        lesson = path.parent.parent
        source = lesson / file if (lesson / file).exists() else ROOT / file
        bugs.append(Bug(f"{lesson.name[:2]}/{pathlib.Path(file).name}", source, what,
                        "\n".join(code["-"]), "\n".join(code["+"]), head.split()[1:]))
    return bugs


def check_places(bugs):
    wrong = []
    for bug in bugs:
        if not bug.source.exists():
            wrong.append(f"{bug.place}: '{bug.what}': there is no such file")
            continue
        count = len(bug.pattern().findall(bug.source.read_text()))
        if count != 1:
            wrong.append(f"{bug.place}: '{bug.what}': its code is there {count} times, wanted once:\n{bug.old}")
    return wrong


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", **options)


class Build:
    """The compile and link commands of a build folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        commands = json.loads((self.folder / "compile_commands.json").read_text())
        self.compile = {pathlib.Path(c["file"]).resolve(): c["command"] for c in commands}
        self.link = {}

    def link_command(self, test):
        if test not in self.link:
            out = run(["ninja", "-C", str(self.folder), "-t", "commands", test]).stdout
            lines = [l for l in out.splitlines() if f"-o bin/{test} " in l]
            if not lines:
                sys.exit(f"error: {self.folder} has no {test}; build it first")
            command = lines[-1]
            command = command[command.index("&&") + 2 :] if command.startswith(":") else command
            self.link[test] = command.split("&&")[0].strip()
        return self.link[test]

    def compile_bug(self, bug, folder):
        mutant = folder / bug.source.name
        mutant.write_text(bug.planted())
        words = shlex.split(self.compile[bug.source])
        words = [w for w in words if w not in ("-Werror", "ccache")]
        words = ["-O1" if w == "-O2" else w for w in words if not w.startswith("-g")]
        out = folder / "mutant.o"
        words[words.index("-o") + 1] = str(out)
        words[words.index("-c") + 1] = str(mutant)
        for option in ("-MF", "-MT"):
            if option in words:
                at = words.index(option)
                del words[at : at + 2]
        words = [w for w in words if w != "-MD"] + ["-I", str(bug.source.parent), "-w"]
        done = run(words, cwd=self.folder)
        return out, done.stderr if done.returncode else ""

    def link_bug(self, test, mutant, folder):
        words = shlex.split(self.link_command(test))
        program = folder / test
        words[words.index("-o") + 1] = str(program)
        first_library = next(i for i, w in enumerate(words) if w.endswith(".a"))
        words.insert(first_library, str(mutant))
        done = run(words, cwd=self.folder)
        return program, done.stderr if done.returncode else ""


def try_bug(build, bug, options):
    """Who has found it; empty for a bug that no test sees."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        mutant, error = build.compile_bug(bug, folder)
        if error:
            return f"ERROR: it does not compile: {error.strip().splitlines()[0]}"
        for test in bug.tests:
            program, error = build.link_bug(test, mutant, folder)
            if error:
                return f"ERROR: it does not link: {error.strip().splitlines()[0]}"
            try:
                done = run([str(program), "--abort-after=1", "--no-colors", f"--test-case={options.case}"], timeout=120,
                           env={**os.environ, **FAST})
            except subprocess.TimeoutExpired:
                return f"{test} does not end"
            if done.returncode != 0:
                if options.show:
                    print(done.stdout, file=sys.stderr)
                found = re.search(r"TEST CASE:\s+(.*)", done.stdout)
                what = found.group(1).strip() if found else "it ends with a signal"
                return f"{test.removesuffix('_test')}: {what}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", metavar="FOLDER", help="a build folder with the lessons' tests")
    parser.add_argument("--only", metavar="TEXT", default="", help="only bugs whose place (06/block_hash.cpp) or text has this")
    parser.add_argument("--case", metavar="NAME", default="*", help="only these test cases; * stands for anything")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--check", action="store_true", help="only look whether every bug has its place")
    parser.add_argument("--show", action="store_true", help="what the failing test says, too")
    options = parser.parse_args()
    bugs = [bug for path in sorted(ROOT.glob("lessons/*/test/planted.txt")) for bug in bugs_of(path)]
    wrong = check_places(bugs)
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    if wrong:
        return 1
    if options.check:
        print(f"{len(bugs)} bugs have their places")
        return 0
    if not options.bin:
        parser.error("--bin FOLDER is missing")
    build = Build(options.bin)
    bugs = [bug for bug in bugs if options.only in f"{bug.place} {bug.what}"]
    for test in {test for bug in bugs for test in bug.tests}:  # before the threads
        build.link_command(test)
    missed = 0
    print(f"{'bug':<66}  {'in':<24}  found by")
    print("-" * 66 + "  " + "-" * 24 + "  " + "-" * 40)
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        for bug, found in zip(bugs, pool.map(lambda bug: try_bug(build, bug, options), bugs)):
            missed += not found or found.startswith("ERROR")
            print(f"{bug.what:<66}  {bug.place:<24}  {found or 'NOBODY'}", flush=True)
    print(f"\n{len(bugs) - missed} of {len(bugs)} planted bugs found")
    return 1 if missed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
