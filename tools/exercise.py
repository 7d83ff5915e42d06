#!/usr/bin/env python3
"""Runs a lesson's tests over a learner's code and says what passes, what fails, and what waits.

  exercise.py BINARY [--verbose]

Every test runs in its own process: one that crashes or does not end takes no other with it.
Exit code 0: all pass. 1: some fail. 77: none fails, some wait for something to be written."""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

TODO = 77
LIMIT_S = 120


def cases_of(binary):
    listed = subprocess.run([binary, "--list-test-cases", "--no-colors=true"], stdout=subprocess.PIPE, text=True,
                            check=True).stdout
    return [line for line in listed.splitlines() if line and not line.startswith(("[doctest]", "==="))]


def run(binary, case):
    """(passes, fails or waits), what it printed, and what is to do, if it said so."""
    chosen = "--test-case=" + re.sub(r"([,\\])", r"\\\1", case)
    try:
        done = subprocess.run([binary, chosen, "--no-colors=true", "--no-intro=true"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return "fails", f"not done in {LIMIT_S} s", ""
    todo = re.search(r"^TODO: (.*?) \((.*)\)$", done.stdout, re.M)
    if done.returncode == TODO and todo:
        return "waits", done.stdout, f"{todo[1]} ({os.path.relpath(todo[2])})"
    if done.returncode == 0 and not re.search(r"test cases: +0 \|", done.stdout):
        return "passes", done.stdout, ""
    if done.returncode < 0:
        return "fails", f"{done.stdout}\nended by signal {-done.returncode}", ""
    return "fails", done.stdout, ""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary", type=pathlib.Path)
    parser.add_argument("--verbose", action="store_true", help="name the tests that pass, too")
    options = parser.parse_args()
    cases = cases_of(options.binary)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda case: run(options.binary, case), cases))
    count = {"passes": 0, "waits": 0, "fails": 0}
    first_failure, first_todo = None, None
    for case, (state, output, todo) in zip(cases, results):
        count[state] += 1
        if state == "fails" or options.verbose or (state == "waits" and first_todo is None):
            print(f"  {state:6}  {case}" + (f"\n          to write: {todo}" if todo else ""))
        if state == "fails" and first_failure is None:
            first_failure = (case, output)
        if state == "waits" and first_todo is None:
            first_todo = todo
    if first_failure:
        print(f"\nThe first that fails, {first_failure[0]}:\n{first_failure[1].strip()}")
    print(f"\n{count['passes']} tests pass, {count['waits']} wait for something to be written, {count['fails']} fail.")
    if first_todo and not first_failure:
        print(f"Next: {first_todo}")
    sys.exit(1 if count["fails"] else TODO if count["waits"] else 0)


if __name__ == "__main__":
    main()
