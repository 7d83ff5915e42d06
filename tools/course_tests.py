"""./course test: what is built and left out, and what is shown of ctest's words."""
import collections
import os
import re
import subprocess
import sys

from course_arguments import ERASE, GREEN, RED, coloured, die, guess, move, rewrites, say
from course_builds import READ, child, num_jobs, output_of

NO_GPU = 77  # exit code of tests that need one
# Random operations, faults and more: as many as a learner waits for. docs/proof.md says how many --long takes.
SHORT = {"KV_RANDOM_OPS": 1000000, "KV_FAULT_STEP": 5, "KV_PROMPTS": 200, "KV_CLICKS": 100, "KV_WINDOWS": 1}
OUTCOMES = {"passed": GREEN, "failed": RED, "skipped": ""}
WORDY = {"-V", "-VV", "-N", "--verbose", "--extra-verbose", "--show-only", "--print-labels"}


def refuse_unknown(words, known, typed):
    """Refuses an option that is not known, and says which one is nearly it."""
    for word in words:
        option = word.split("=")[0]
        if not option.startswith("-") or option in known or re.fullmatch(r"-j\d+", option):
            continue
        die(f"unknown option '{option}';{guess(option, known)} {typed} --help lists the options")


def check_words(words):
    """Refuses what neither we nor ctest know: ctest itself takes any word, and then all tests pass."""
    known = re.findall(r"(?:^|[ ,])(--?[A-Za-z][A-Za-z-]*)", output_of(["ctest", "--help"]), re.M)
    refuse_unknown(words, ["--all", "--long", *known], "./course test")
    if words and words[-1] in ("-R", "-E", "-L", "-LE"):
        die(f"{words[-1]}: a value is missing, wanted a pattern, as in ./course test -R ladder")
    for before, word in zip(["", *words], words):
        takes_value = before.startswith("-") and "=" not in before and before not in ("--all", "--long")
        if not word.startswith("-") and not takes_value:
            die(f"unexpected '{word}'; ./course test 5 takes a lesson, ./course test -R PATTERN tests by name")


def waits_for_gpu(build, command, pattern):
    """Why GPU tests cannot run, in a line; None if they can."""
    program = next(build.folder.glob(f"bin/{pattern}"), None)
    if program is None:
        return "GPU tests are not built: this build has no CUDA code (COURSE_PRESET=cuda)."
    done = subprocess.run([program, "--test-case=none"], text=True, stdout=subprocess.PIPE, check=False)
    if done.returncode != NO_GPU:
        return None
    count = re.search(r"Total Tests: (\d+)", output_of([*command, "-N", "-L", "^gpu$"]))[1]
    return f"{count} tests wait for a GPU ({done.stdout.strip().removeprefix('SKIP: ')})."


def run(build, lesson, words, typed):
    """Builds and runs the course's tests, or a lesson's with its page; the exit code of ctest."""
    check_words(words)
    if "--rerun-failed" in words and not (build.folder / "Testing/Temporary/LastTestsFailed.log").exists():
        die("no test has failed, so there is none to run again")
    is_all = bool(lesson) or "--all" in words or re.search("viz|instruments|repository|wing", " ".join(words))
    is_long = "--long" in words or build.preset == "asan"  # which does fewer already
    words = [word for word in words if word not in ("--all", "--long")]
    left_out = []  # in one pattern: of several ctest leaves out only what all of them match
    while "-LE" in words[:-1]:
        at = words.index("-LE")
        left_out.append(words[at + 1])
        del words[at : at + 2]
    asked = " ".join(words)
    target = f"tests_lesson{lesson}" if lesson else "tests" if is_all else "tests_course"
    if re.fullmatch("-[RL] repository.*", asked):
        target = "tests_repository"  # rules, and what the texts show
    if is_all:
        build.wings()
    build.build(target)
    command = ["ctest", "--test-dir", str(build.folder), "--no-tests=error"]
    if lesson:
        command += ["-L", f"^lesson{lesson}$"]
    # Tests that only a GPU can run are one line where there is none, unless somebody asks for them.
    gpu_tests = f"lesson{lesson}_gpu_test" if lesson else "*_gpu_test"
    waiting = None if "gpu" in asked or target == "tests_repository" else waits_for_gpu(build, command, gpu_tests)
    if waiting:
        left_out.append("gpu")
    if not is_all:
        left_out.append("wing")
    if left_out:
        command += ["-LE", f"^({'|'.join(left_out)})$"]
    command += words
    if not is_long:
        for name, value in SHORT.items():
            os.environ.setdefault(name, str(value))
    os.environ.setdefault("KV_THREADS", "2")  # as many tests at once as there are cores: each with few threads
    code = run_ctest(command, typed)
    if waiting:
        say(waiting)
    return code


def run_ctest(command, typed):
    run_all = [*command, "--output-on-failure", "-j", str(num_jobs())]
    if any(word.split("=")[0] in WORDY for word in command):
        with child(run_all) as ctest:
            pass
        return ctest.returncode
    results = Results(re.findall(r"^ *Test +#\d+: (.*)", output_of([*command, "-N"]), re.M), typed)
    with child(run_all, **READ) as ctest:
        for line in ctest.stdout:
            results.read(line.rstrip("\n"))
    return ctest.returncode


class Results:
    """Reads what ctest prints. Each program of tests gets a line once its tests are done, and what fails is there
    in full; on a terminal a line moves. Tests of a text's further tasks wait until a learner begins: one line, too."""
    RESULT = re.compile(r" *(\d+/\d+) Test +#\d+: (.+) \.\.+(?: +|\*\*\*)([A-Z].*)")

    def __init__(self, names, typed):
        self.typed = typed
        self.left = collections.Counter(map(self.group_of, names))
        self.groups = collections.defaultdict(collections.Counter)
        self.totals = collections.Counter()
        self.in_failure = False
        self.finished = ""  # the line of a group, which is below what its last test has said

    @staticmethod
    def group_of(name):
        """The program of a test, or "repository"."""
        return re.split(": |_NOT_BUILT", name)[0]

    def read(self, line):
        if result := self.RESULT.match(line):
            self.result(*result.groups())
        elif ended := re.match(r"Total Test time \(real\) = +([\d.]+)", line):
            self.end(ended[1])
        elif re.match(r"\d+% tests passed", line):
            self.end_failure()
        elif line.startswith("No tests were found") or ("Error" in line and not self.totals):
            self.show(line)
        elif self.in_failure and not re.match(r" +Start +\d+: ", line):
            self.show(line)

    def end_failure(self):
        self.in_failure = False
        if self.finished:
            self.show(self.finished)
        self.finished = ""

    def result(self, count, name, words):
        self.end_failure()
        group = self.group_of(name)
        outcome = "passed" if words.startswith("Passed") else "failed"
        if words.startswith(("Skipped", "Not Run")):
            outcome = "waiting" if group.endswith("_further_test") else "skipped"
        self.in_failure = outcome == "failed"
        if self.in_failure:
            self.show(f"{coloured('failed', RED, sys.stdout)}  {name}")
        self.groups[group][outcome] += 1
        self.totals[outcome] += 1
        self.left[group] -= 1
        counts = [f"{self.groups[group][what]} {what}" for what in OUTCOMES if self.groups[group][what]]
        if self.left[group] == 0 and counts:
            self.finished = f"  {group:<28}{', '.join(counts)}"
        if not self.in_failure:
            self.end_failure()
        if rewrites(sys.stdout):
            move(f"  {count}  {name}", sys.stdout)

    def show(self, line):
        print(f"{ERASE if rewrites(sys.stdout) else ''}{line}", flush=True)

    def end(self, seconds):
        found = [what for what in OUTCOMES if self.totals[what]]
        counts = [coloured(f"{self.totals[what]} {what}", OUTCOMES[what], sys.stdout) for what in found]
        again = f"; once more, these alone: {self.typed} --rerun-failed" if self.totals["failed"] else ""
        self.show(f"{', '.join(counts) or 'nothing has run'} in {seconds} s{again}")
        if self.totals["waiting"]:
            say(f"{self.totals['waiting']} further tasks wait until you begin them.")
