#!/usr/bin/env python3
"""The exercises: a lesson's own code with its heart taken out, under the lesson's own tests.

  exercise.py make FOLDER [--again]       writes FOLDER/exercise/*.cpp, unless they are there already;
                                          --again moves those into exercise/backup/ first
  exercise.py test BINARY [--verbose]     says which tests pass, which fail, and which wait
  exercise.py check FOLDER...             every function that an exercise names is there

FOLDER/exercise/README.md names the functions to write: `## file`, and below it `### `the beginning of
the function)`` with a hint. Only their bodies are taken out; a KV_TODO stands there instead.

Every test runs in its own process: one that crashes or does not end takes no other with it.
Exit code of `test`: 0 if all pass, 1 if some fail, 77 if none fails and some wait."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import textwrap
import time

WAITS = 77
LIMIT_S = 120


def functions_of(readme):
    """file -> [(the beginning of its definition, hint)]."""
    files = {}
    for part in re.split(r"^## ", readme.read_text(encoding="utf-8"), flags=re.M)[1:]:
        name, text = part.split("\n", 1)
        found = re.findall(r"^### `([^`\n]+)\)`\n\n(.+?)(?=^###|\Z)", text, re.M | re.S)
        files[name.strip()] = [(begin, " ".join(hint.split())) for begin, hint in found]
    return files


def without_body(source, begin, hint):
    at = source.index("\n" + begin) + 1
    opened = source.index("{\n", at) + 2
    closed = source.index("\n}\n", opened) + 1
    name = re.search(r"([\w:]+)\($", begin).group(1)
    lines = "".join(f"  // {line}\n" for line in textwrap.wrap(hint, width=95))
    return f'{source[:opened]}{lines}  KV_TODO("{name}");\n{source[closed:]}'


def skeletons(folder):
    for file, functions in functions_of(folder / "exercise" / "README.md").items():
        source = (folder / file).read_text(encoding="utf-8")
        for begin, hint in functions:
            if f"\n{begin}" not in source:
                sys.exit(f"error: {folder}/exercise/README.md: no definition in {file} begins with `{begin}`")
            source = without_body(source, begin, hint)
        yield folder / "exercise" / file, '#include "common/base/todo.h"\n' + source


def make(folder, again):
    exercise = folder / "exercise"
    backup = exercise / "backup" / time.strftime("%Y-%m-%d_%H-%M-%S")
    for path, text in skeletons(folder):
        if again and path.exists():
            backup.mkdir(parents=True, exist_ok=True)
            path.rename(backup / path.name)
            print(f"what you wrote is kept in {os.path.relpath(backup / path.name)}")
        if not path.exists():
            path.write_text(text, encoding="utf-8")
            print(f"wrote {os.path.relpath(path)}")
    for path in sorted(exercise.glob("*.cpp")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if todo := re.search(r'KV_TODO\("(.*)"\)', line):
                print(f"  to write: {todo[1]} ({os.path.relpath(path)}:{number})")


def cases_of(binary):
    listed = subprocess.run([binary, "--list-test-cases", "--no-colors=true"], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    return [line for line in listed.splitlines() if line and not line.startswith(("[doctest]", "==="))]


def run(binary, case):
    """passes, fails or waits; what it printed; what is to be written, if it said so."""
    chosen = "--test-case=" + re.sub(r"([,\\])", r"\\\1", case)
    try:
        done = subprocess.run([binary, chosen, "--no-colors=true", "--no-intro=true"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return "fails", f"not done in {LIMIT_S} s", ""
    unwritten = re.search(r"^to write: (.*?) \((.*)\)$", done.stdout, re.M)
    if done.returncode == WAITS and unwritten:
        return "waits", done.stdout, f"{unwritten[1]} ({os.path.relpath(unwritten[2])})"
    if done.returncode == 0 and not re.search(r"test cases: +0 \|", done.stdout):
        return "passes", done.stdout, ""
    signal = f"\nended by signal {-done.returncode}" if done.returncode < 0 else ""
    return "fails", done.stdout + signal, ""


def test(binary, verbose):
    cases = cases_of(binary)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda case: run(binary, case), cases))
    states = [state for state, _, _ in results]
    if verbose:
        for case, state in zip(cases, states):
            print(f"  {state:6}  {case}")
    failures = [(case, output) for case, (state, output, _) in zip(cases, results) if state == "fails"]
    for case, _ in failures:
        print(f"  fails   {case}")
    if failures:
        print(f"\nThe first of them:\n{failures[0][1].strip()}")
    passing, waiting = states.count("passes"), states.count("waits")
    print(f"\n{passing} tests pass, {waiting} wait for something to be written, {len(failures)} fail.")
    if waiting and not failures:
        print("Next: " + next(unwritten for state, _, unwritten in results if state == "waits"))
    return 1 if failures else WAITS if waiting else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    making = verbs.add_parser("make", help="write the files that are missing")
    making.add_argument("folder", type=pathlib.Path)
    making.add_argument("--again", action="store_true", help="anew; what you wrote is kept in exercise/backup/")
    testing = verbs.add_parser("test", help="run the tests")
    testing.add_argument("binary", type=pathlib.Path)
    testing.add_argument("--verbose", action="store_true", help="name every test")
    checking = verbs.add_parser("check", help="are the functions of the exercises there?")
    checking.add_argument("folders", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    if options.verb == "check":
        made = [path for folder in options.folders for path, _ in skeletons(folder)]
        print(f"{len(made)} files can be made")
        return 0 if made else 1
    if options.verb == "make":
        return make(options.folder, options.again)
    return test(options.binary, options.verbose)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:  # a folder that cannot be written, say
        sys.exit(f"error: {error}")
