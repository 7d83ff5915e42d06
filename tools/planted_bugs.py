#!/usr/bin/env python3
"""Puts one bug at a time into a copy of the course's real code, and sees a test find it.

    ./course planted                     all bugs
    ./course planted --only 05/          those with these words in their lesson, file or text (a whole
                                         file takes minutes)
    tools/planted_bugs.py --bin FOLDER   the same in a build that is there
    tools/planted_bugs.py --check        only: does every bug still have its place?
    tools/planted_bugs.py --programs     only: which programs does it need, in which builds?

Each lesson lists its bugs in lessons/NN_topic/test/planted.txt. The first line names the test programs
that must find them, the first one first; then, between empty lines, one paragraph for each bug:

    tests: lesson06_test lesson07_test

    block_manager.cpp: the last token may be found, too
    - end < tokens.size()
    + end <= tokens.size()

The code after the minus signs must be in the file exactly once (spaces and line ends do not count); what
is after the plus signs takes its place. What is a wrong solution of the lesson's exercise (tools/exercise.py check) or a mutant of it
(tools/exercise.py mutants) is not planted once more. The file's name is meant from the lesson's folder, or
from the repository's root. It is compiled alone and linked ahead of the
libraries with the tests; nothing in the working tree changes. A bug counts as found if a test fails,
or does not end. Exit code 1 if one is not found.

Bugs in CUDA kernels stand in planted_kernels.txt and run on the simulated GPU (docs/simt.md):

    kernels: lesson02_gpu_test

    kernels/attention/spread/spread_queries.cuh: the tiles are merged before they are complete
    - attend(tiles); __syncthreads();
    + attend(tiles);
    in: fast.cu
    found by: races, "attention over slabs*"

`in:` is the file to compile if the bug is in a header, in planted.txt, too. `found by:` names who must find it: races, bounds, divergence
(a barrier or a shuffle that some threads miss) or results (a test that fails), and the test cases that run.
"""

import concurrent.futures
import dataclasses
import fnmatch
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import tempfile

import course_arguments
import course_builds
import kernel_runs

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
    tool: str = "tests"  # who must find it, if it is in a kernel
    cases: str = "*"
    through: pathlib.Path = None  # what is compiled, if it is in a header

    def preset(self):
        """Of the simulated GPU; none for a bug outside of kernels."""
        return {"tests": "", "results": "simt", "divergence": "simt"}.get(self.tool) or kernel_runs.PRESETS.get(self.tool, "")

    def pattern(self):
        return re.compile(r"\s+".join(re.escape(word) for word in self.old.split()))

    def shown(self, found):
        return course_arguments.fitted(f"{self.what}\n  in        {self.place}\n  found by  {found or 'NO TEST'}\n")

    def planted(self):
        return self.pattern().sub(lambda _: self.new, self.source.read_text())


LINE = re.compile(r"(?:([-+]) ?(.*)|(in|found by): (.*))$")


def bugs_of(path):
    """The bugs of one planted.txt or planted_kernels.txt."""
    head, *paragraphs = path.read_text().strip().split("\n\n")
    where = path.relative_to(ROOT)
    first = "kernels:" if path.stem == "planted_kernels" else "tests:"
    if not head.startswith(first):
        sys.exit(f"error: {where}: found '{head}', wanted a first line '{first} PROGRAM ...'")
    lesson = path.parent.parent
    at = lambda file: lesson / file if (lesson / file).exists() else ROOT / file
    bugs = []
    for paragraph in paragraphs:
        title, *lines = [line for line in paragraph.split("\n") if not line.startswith("#")]
        file, _, what = title.partition(": ")
        code, told = {"-": [], "+": []}, {}
        for line in lines:
            match = LINE.match(line)
            if not match:
                sys.exit(f"error: {where}: '{title}': found '{line}', wanted '- CODE', '+ CODE', 'in: FILE' or 'found by: TOOL'")
            if match[1]:
                code[match[1]].append(match[2])
            else:
                told[match[3]] = match[4]
        if not what or not code["-"]:
            sys.exit(f"error: {where}: found '{title}', wanted 'FILE: WHAT IS WRONG' and lines '- CODE'")
        tool, _, cases = told.get("found by", "tests").partition(", ")
        if (tool not in ("races", "bounds", "divergence", "results")) != (first == "tests:"):
            sys.exit(f"error: {where}: '{title}': found by '{tool}', wanted races, bounds, divergence or results")
        owner = lesson.name[:2] if lesson.name[0].isdigit() else path.parent.name
        bugs.append(Bug(f"{owner}/{pathlib.Path(file).name}", at(file), what, "\n".join(code["-"]), "\n".join(code["+"]),
                        head.split()[1:], tool, cases.strip('"') or "*", at(told["in"]) if "in" in told else None))
    return bugs


def check_places(bugs):
    wrong = []
    for bug in bugs:
        if not bug.source.exists():
            wrong.append(f"{bug.place}: '{bug.what}': there is no such file")
            continue
        if bug.source.suffix in (".h", ".cuh") and not bug.through:
            wrong.append(f"{bug.place}: '{bug.what}': a header, so a line 'in: FILE' must say what is compiled")
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
        mutant = folder / bug.source.relative_to(ROOT)  # found before the real one
        mutant.parent.mkdir(parents=True)
        mutant.write_text(bug.planted())
        compiled = mutant
        if bug.through:  # files beside a header include it by its bare name
            for file in bug.source.parent.iterdir():
                if file.is_file() and file != bug.source:
                    (mutant.parent / file.name).symlink_to(file)
            compiled = folder / bug.through.relative_to(ROOT)
            compiled = compiled if compiled.exists() else bug.through
        words = shlex.split(self.compile[bug.through or bug.source])
        words = [w for w in words if w not in ("-Werror", "ccache")]
        words = ["-O1" if w == "-O2" else w for w in words if bug.preset() or not w.startswith("-g")]
        out = folder / "mutant.o"
        words[words.index("-o") + 1] = str(out)
        words[words.index("-c") + 1] = str(compiled)
        words[1:1] = ["-I", str(folder), f"-ffile-prefix-map={folder}={ROOT}"]
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
        for other in (self.folder / "bin").iterdir():  # a test runs the programs beside it
            if other.name != test and not (folder / other.name).exists():
                (folder / other.name).symlink_to(other)
        words[words.index("-o") + 1] = str(program)
        first_object = next(i for i, w in enumerate(words) if w.endswith(".o"))
        words.insert(first_object, str(mutant))  # of an inline function the first copy is taken
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
            found = (run_tests if bug.tool == "tests" else run_kernels)(program, bug, options)
            if found:
                return f"{test.removesuffix('_test')}: {found}"
    return ""


def run_tests(program, bug, options):
    limited = ["sh", "-c", 'ulimit -t 120 && exec "$0" "$@"']  # seconds of a processor, however busy the machine is
    try:
        done = run([*limited, str(program), "--abort-after=1", "--no-colors", f"--test-case={options.case}"], timeout=1200,
                   env={**os.environ, **FAST})
    except subprocess.TimeoutExpired:
        return "it does not end"
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return "it does not end"
    if done.returncode == 0:
        return ""
    if options.show:
        print(done.stdout, file=sys.stderr)
    found = re.search(r"TEST CASE:\s+(.*)", done.stdout)
    return found.group(1).strip() if found else "it ends with a signal"


def run_kernels(program, bug, options):
    """What the tool that must find it says, in short; nothing if it was found by another one."""
    for result in kernel_runs.run(program, "" if bug.tool in ("results", "divergence") else bug.tool,
                                  kernel_runs.cases_of(program, "*", bug.cases), jobs=1):
        if result.state != "fails" or not result.findings:
            continue
        lines = result.findings[0]
        if options.show:
            print(f"\n{bug.what}:", *lines, sep="\n", file=sys.stderr)
        text = "\n".join(lines)
        threads = re.search(kernel_runs.DIVERGENCE, text)
        if bug.tool == "results":
            return "" if threads else f"results: {result.case}"
        if bug.tool == "divergence":
            return f"divergence: {threads[0]}" if threads else ""
        places = re.findall(r"^    (\S+?)(?=:\d)(:\d+)", text, re.M)
        named = " and ".join(dict.fromkeys(pathlib.Path(file).name + line for file, line in places))
        return f"{bug.tool}: {named}" if lines[0].startswith(("a race", "an overrun", "undefined")) else ""
    return ""


def test_cases():
    """The names of all test cases; one in several parts has each of them."""
    for path in ROOT.rglob("*test*/**/*.cpp"):
        yield from re.findall(r'TEST_CASE\w*\(\s*"((?:[^"\\]|\\.)*)"', path.read_text(encoding="utf-8"))


def main():
    parser = course_arguments.Parser(prog="./course planted", description=__doc__)
    parser.add_argument("--bin", metavar="FOLDER", help="a build folder that has the lessons' tests")
    parser.add_argument("--only", metavar="TEXT", default="", help="only bugs whose place (06/block_hash.cpp) or text has this")
    parser.add_argument("--case", metavar="NAME", default="*", help="only these test cases; * stands for anything")
    parser.add_argument("--jobs", metavar="N", type=int, help="bugs at a time", default=course_builds.num_jobs())
    parser.add_argument("--kernels", action="store_true", help="only bugs in CUDA kernels")
    parser.add_argument("--programs", action="store_true", help="only print the programs that are needed, and their builds")
    parser.add_argument("--check", action="store_true", help="only look whether every bug has its place")
    parser.add_argument("--show", action="store_true", help="what the failing test says, too")
    options = parser.parse_args()
    texts = sorted(ROOT.glob("lessons/*/test/planted*.txt")) + sorted(ROOT.glob("instruments/*/test/planted*.txt")) + sorted(ROOT.glob("tests/*/planted*.txt"))
    bugs = [bug for path in texts for bug in bugs_of(path) if bug.tool != "tests" or not options.kernels]
    wrong = check_places(bugs)
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    if wrong:
        return 1
    if options.check:
        wrong = sum(path.read_text().count("\nsays:") for path in ROOT.glob("lessons/*/test/wrong_solutions.txt"))
        print(f"{len(bugs)} bugs have their places, and {wrong} wrong solutions of exercises are beside them")
        return 0
    bugs = [bug for bug in bugs if options.only in f"{bug.place} {bug.what}"]
    if not bugs:
        print(f"error: no planted bug has '{options.only}' in its text or its place, such as 06/block_hash.cpp", file=sys.stderr)
        return 2
    if not any(fnmatch.fnmatch(name.lower(), options.case.lower()) for name in test_cases()):
        print(f"error: --case: no test case is named '{options.case}'; * stands for anything", file=sys.stderr)
        return 2
    programs = sorted({(bug.preset(), test) for bug in bugs for test in bug.tests})
    if options.programs:
        for preset, test in programs:
            print(preset or "-", test)
        return 0
    if not options.bin:
        course_builds.setup(course_builds.Build())
        for preset in sorted({preset for preset, _ in programs}):
            planted_in = course_builds.Build(preset or course_builds.PRESET)
            planted_in.build(*(test for of, test in programs if of == preset))
    folder = pathlib.Path(options.bin or course_builds.Build().folder).resolve()
    builds = {preset: Build(folder.parent / preset if preset else folder) for preset, _ in programs}
    for preset, test in programs:  # before the threads
        builds[preset].link_command(test)
    missed = 0
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        for bug, found in zip(bugs, pool.map(lambda bug: try_bug(builds[bug.preset()], bug, options), bugs)):
            missed += not found or found.startswith("ERROR")
            print(bug.shown(found), flush=True)
    print(f"{len(bugs) - missed} of {len(bugs)} planted bugs found")
    return 1 if missed else 0


if __name__ == "__main__":
    course_arguments.end_with(main)
