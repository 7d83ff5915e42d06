"""A bug in a copy of lesson N's code, and what a user says of it: find it, and mend it.

options:
  -h, --help                      shows this help
  --next                          another bug
  --level KIND                    one that is easy, middle or hard
  --show                          the answer: your copy, compared with the lesson's
  --reset                         the bug as it was at first
  --undo                          brings back what the last --reset or --next put aside

Without an option: what a user says; from then on the lesson's tests on your copy.

The copy is in lessons/NN_topic/repair; the lesson's own files stay as they are. ./course run N --repair and
./course viz N --repair run on it.

Exit code: 0 mended, 1 a test fails, 77 a bug to find, 2 wrong use."""
import argparse
import concurrent.futures
import os
import pathlib

import kernel_runs
from bugs import LEVELS
from course_builds import exercise_folder

from . import runs
from .lesson import Lesson, Mistake, wrapped
from .solutions import wrong_solutions


class Repair(Lesson):
    """The learner's copy of a lesson's files, with a bug in one of them."""
    what = "repair"

    def __init__(self, folder):
        super().__init__(folder)
        self.bugs = sorted((wrong for wrong in wrong_solutions(self) if wrong.level), key=lambda bug: LEVELS.index(bug.level))
        self.kept = {"bug": "", "mended": [], "before": [], **self.kept}

    @property
    def bug(self):
        return next((bug for bug in self.bugs if bug.what == self.kept["bug"]), None)

    def skeleton(self, file):
        return self.bug.unseen(self.own(file)) if file == self.bug.file else self.own(file)

    def texts(self):
        return {file: self.written(file) for file in self.files()}

    def is_changed(self):
        return any(text != self.skeleton(file) for file, text in self.texts().items())

    def begin(self, what, texts=None):
        """What was written for the bug before is put aside, for undo()."""
        if texts is None and self.bug and self.is_changed():
            self.kept["before"].append([self.kept["bug"], self.texts()])
        self.kept["bug"] = what
        self.exercise.mkdir(exist_ok=True)
        self.keep()
        for file in self.files():
            (self.exercise / file).write_text((texts or {}).get(file) or self.skeleton(file), encoding="utf-8")

    def following(self, level):
        """The next bug of that level that is not mended yet, or any if all are."""
        bugs = [bug for bug in self.bugs if level in (None, bug.level)]
        if not bugs:
            raise Mistake(f"lesson {self.number} has no {level or 'such'} bug to mend")
        at = bugs.index(self.bug) + 1 if self.bug in bugs else 0
        turned = bugs[at:] + bugs[:at]
        return next((bug for bug in turned if bug.what not in self.kept["mended"] and bug is not self.bug), turned[0]).what

    def undo(self):
        if not self.kept["before"]:
            raise Mistake("there is nothing to undo: no --reset or --next has put anything aside")
        self.begin(*self.kept["before"].pop())


def show_symptom(repair):
    bug, number = repair.bug, repair.number
    file = f"The bug is in {repair.place(bug.file)}." if bug.level == "easy" else f"The bug is in one of {', '.join(repair.files())}."
    print("\nA user says:\n", *(f"  {line}" for line in wrapped(bug.symptom, runs.width() - 2)), "", sep="\n")
    print(f"{bug.level.capitalize()}, {repair.bugs.index(bug) + 1} of {len(repair.bugs)} bugs of lesson {number}, {len(repair.kept['mended'])} mended. {file}",
          f"Your copy         {repair.place('')}: change it there", f"See it            ./course run {number} --repair, ./course viz {number} --repair",
          f"What tests say    ./course repair {number}", f"Another bug       ./course repair {number} --next; the answer: --show", sep="\n")
    return runs.WAITS


def compare(repair):
    for file, text in repair.texts().items():
        if text != repair.own(file):
            runs.compare(repair.place(file), text, repair.own(file))


def first_failure(repair, folder):
    """(the first test that fails or None, how many have run). The tests of the bug's function come first: they are few."""
    step, jobs = repair.bug.step, []
    for target in runs.targets_of(step, repair.target, repair.what):
        binary = runs.program(folder, target)
        jobs += [(binary, case) for case in kernel_runs.cases_of(binary, "*")]
    known = [job for job in jobs if job[1] in step.tests + step.gpu_tests]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for some in (known, [job for job in jobs if job not in known]):
            for result in pool.map(lambda job: runs.run_case(*job, {"SIMT_SEED": "0"}, 24 * runs.LIMIT_S), some):
                if result.state != "passes":
                    pool.shutdown(wait=False, cancel_futures=True)
                    return result, len(jobs)
    return None, len(jobs)


def check(repair, folder):
    number = repair.number
    if not repair.is_changed():
        print("Your copy is as it was. What the tests say of it:", flush=True)
    ok, words = runs.build(folder, runs.targets_of(repair.bug.step, repair.target, repair.what))
    if not ok:
        print(*words, *([] if words == runs.NO_GPU else [runs.coloured(runs.verdict(words), "31")]), sep="\n")
        return 1
    result, tests = first_failure(repair, folder)
    if result:
        print("", runs.coloured("Not mended yet. This test fails:", "31"), "", f'  "{result.case}"', *(f"    {line}" for line in result.report),
              *runs.shown_test(result.report), "", f"A user says: {repair.bug.symptom}", f"The answer: ./course repair {number} --show; another bug: --next", sep="\n")
        return 1
    repair.kept["mended"] = [*dict.fromkeys([*repair.kept["mended"], repair.bug.what])]
    repair.keep()
    print("", runs.coloured(f"Mended: all {tests} tests pass.", "32"), f"The bug: {repair.bug.what}.", sep="\n")
    compare(repair)
    left = len(repair.bugs) - len(repair.kept["mended"])
    print(f"{left} bugs of lesson {number} are left: ./course repair {number} --next" if left else f"Lesson {number} has no other bug to mend.")
    return 0


def repair(options):
    repair = Repair(options.folder)
    if options.undo:
        repair.undo()
    elif not repair.bug or options.next or options.level not in (None, repair.bug.level):
        repair.begin(repair.following(options.level))
    elif options.show:
        compare(repair)
        return 0
    elif options.reset:
        repair.begin(repair.bug.what)
    else:
        repair.make()
        return check(repair, options.build or exercise_folder(os.environ.get("COURSE_PRESET")))
    return show_symptom(repair)


def add_arguments(verbs):
    parser = verbs.add_parser("repair", description=__doc__, prog="./course repair N", help="./course repair N")
    parser.add_argument("folder", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--build", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--level", choices=LEVELS, metavar="easy, middle or hard", help=argparse.SUPPRESS)
    for flag in ("next", "show", "reset", "undo"):
        parser.add_argument(f"--{flag}", action="store_true", help=argparse.SUPPRESS)
