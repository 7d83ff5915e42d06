#!/usr/bin/env python3
"""Puts one bug at a time into a copy of the course's real code, and sees a test find it.

    ./course planted                     all bugs
    ./course planted --only 05/          those with these words in their lesson, file or text (a whole
                                         file takes minutes)
    tools/planted_bugs.py --bin FOLDER   the same in a build that is there
    tools/planted_bugs.py --check        only: does every bug still have its place?
    tools/planted_bugs.py --programs     only: which programs does it need, in which builds?

The bugs are those of test/bugs.txt that no step of an exercise must find (tools/bugs.py; tools/exercise.py check tries the
others). A bug's file is compiled alone and linked ahead of the libraries with the tests; nothing in the working tree
changes. A bug counts as found if a test fails, or does not end. Those in CUDA kernels run on the simulated GPU
(docs/simt.md). Exit code 1 if one is not found.
"""

import concurrent.futures
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

import bugs
import course_arguments
import course_builds
import kernel_runs
from bugs import ROOT

# Whole generations find most bugs too, but take longer.
FAST = {"KV_RANDOM_OPS": "100000", "KV_THREADS": "1"}


LISTS = ("lessons/*/test/bugs.txt", "instruments/*/test/bugs.txt", "tests/*/bugs.txt")


def place(bug):
    """For messages: 06/block_hash.cpp."""
    return f"{bug.owner}/{bug.source.name}"


def preset(bug):
    """Of the simulated GPU; none for a bug outside of kernels."""
    return "" if bug.found_by == "tests" else course_builds.SIMULATED.get(bug.found_by, "simt")


def shown(bug, found):
    return course_arguments.fitted(f"{bug.what}\n  in        {place(bug)}\n  found by  {found or 'NO TEST'}\n")


def check_places(planted):
    """Lines about bugs that have no place."""
    for bug in planted:
        if not bug.source.exists():
            yield f"{place(bug)}: '{bug.what}': there is no such file"
            continue
        if bug.source.suffix in (".h", ".cuh") and not bug.through:
            yield f"{place(bug)}: '{bug.what}': a header, so a line 'in: FILE' must say what is compiled"
        if (bug.through or bug.source).suffix == ".cu" and bug.found_by == "tests":
            yield f"{place(bug)}: '{bug.what}': in a kernel, so a line 'found by: TOOL, CASES' must say who finds it"
        try:
            bug.in_place(bug.source.read_text(encoding="utf-8"))
        except bugs.Mistake as mistake:
            yield f"{place(bug)}: {mistake}"


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
                course_arguments.die(f"{self.folder} has no {test}; build it first")
            command = lines[-1]
            command = command[command.index("&&") + 2 :] if command.startswith(":") else command
            self.link[test] = command.split("&&")[0].strip()
        return self.link[test]

    def compile_bug(self, bug, folder):
        mutant = folder / bug.source.relative_to(ROOT)  # found before the real one
        mutant.parent.mkdir(parents=True)
        mutant.write_text(bug.in_place(bug.source.read_text(encoding="utf-8"))[1])
        compiled = mutant
        if bug.through:  # files beside a header include it by its bare name
            for file in bug.source.parent.iterdir():
                if file.is_file() and file != bug.source:
                    (mutant.parent / file.name).symlink_to(file)
            compiled = folder / bug.through.relative_to(ROOT)
            compiled = compiled if compiled.exists() else bug.through
        words = shlex.split(self.compile[bug.through or bug.source])
        words = [w for w in words if w not in ("-Werror", "ccache")]
        words = ["-O1" if w == "-O2" else w for w in words if preset(bug) or not w.startswith("-g")]
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
        for test in bug.programs:
            program, error = build.link_bug(test, mutant, folder)
            if error:
                return f"ERROR: it does not link: {error.strip().splitlines()[0]}"
            found = (run_tests if bug.found_by == "tests" else run_kernels)(program, bug, options)
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
    for result in kernel_runs.run(program, "" if bug.found_by in ("results", "divergence") else bug.found_by,
                                  kernel_runs.cases_of(program, "*", bug.cases), jobs=1):
        if result.state != "fails" or not result.findings:
            continue
        lines = result.findings[0]
        if options.show:
            print(f"\n{bug.what}:", *lines, sep="\n", file=sys.stderr)
        text = "\n".join(lines)
        threads = re.search(kernel_runs.DIVERGENCE, text)
        if bug.found_by == "results":
            return "" if threads else f"results: {result.case}"
        if bug.found_by == "divergence":
            return f"divergence: {threads[0]}" if threads else ""
        places = re.findall(r"^    (\S+?)(?=:\d)(:\d+)", text, re.M)
        named = " and ".join(dict.fromkeys(pathlib.Path(file).name + line for file, line in places))
        return f"{bug.found_by}: {named}" if lines[0].startswith(("a race", "an overrun", "undefined")) else ""
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
    parser.add_argument("--kernels", action="store_true", help="only bugs in CUDA kernels")
    parser.add_argument("--programs", action="store_true", help="only print the programs that are needed, and their builds")
    parser.add_argument("--check", action="store_true", help="only look whether every bug has its place")
    parser.add_argument("--show", action="store_true", help="what the failing test says, too")
    options = parser.parse_args()
    listed = [bug for pattern in LISTS for path in sorted(ROOT.glob(pattern)) for bug in bugs.bugs_of(path)]
    planted = [bug for bug in listed if not bug.says and (bug.found_by != "tests" or not options.kernels)]
    if wrong := list(check_places(planted)):
        print(*(f"error: {line}" for line in wrong), sep="\n", file=sys.stderr)
        return 1
    if options.check:
        print(f"{len(planted)} bugs have their places, and {len(listed) - len(planted)} wrong solutions of exercises are beside them")
        return 0
    planted = [bug for bug in planted if options.only in f"{place(bug)} {bug.what}"]
    if not planted:
        print(f"error: no planted bug has '{options.only}' in its text or its place, such as 06/block_hash.cpp", file=sys.stderr)
        return 2
    if not any(fnmatch.fnmatch(name.lower(), options.case.lower()) for name in test_cases()):
        print(f"error: --case: no test case is named '{options.case}'; * stands for anything", file=sys.stderr)
        return 2
    programs = sorted({(preset(bug), test) for bug in planted for test in bug.programs})
    if options.programs:
        for build, test in programs:
            print(build or "-", test)
        return 0
    if not options.bin:
        course_builds.setup(course_builds.Build())
        for build in sorted({build for build, _ in programs}):
            planted_in = course_builds.Build(build or course_builds.PRESET)
            planted_in.build(*(test for of, test in programs if of == build))
    folder = pathlib.Path(options.bin or course_builds.Build().folder).resolve()
    builds = {build: Build(folder.parent / build if build else folder) for build, _ in programs}
    for build, test in programs:  # before the threads
        builds[build].link_command(test)
    missed = 0
    with concurrent.futures.ThreadPoolExecutor(course_builds.num_jobs()) as pool:
        for bug, found in zip(planted, pool.map(lambda bug: try_bug(builds[preset(bug)], bug, options), planted)):
            missed += not found or found.startswith("ERROR")
            print(shown(bug, found), flush=True)
    print(f"{len(planted) - missed} of {len(planted)} planted bugs found")
    return 1 if missed else 0


if __name__ == "__main__":
    course_arguments.end_with(main, bugs.Mistake)
