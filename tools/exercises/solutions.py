"""exercise.py check: every test of an exercise can fail, and says something useful when it does.

Wrong solutions are the bugs of lessons/NN_topic/test/bugs.txt that have a line `says:` (tools/bugs.py). Each is in a
function of the exercise.

All of a lesson's solutions are built into one program: each function begins with a switch over its versions, and
two environment variables say how many steps are written and which wrong solution is active."""
import collections
import concurrent.futures
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

import bugs
import kernel_runs

from . import checks, runs, substitution
from .lesson import ROOT, Lesson, Mistake, all_lessons

FEWEST, FEWEST_IN_KERNELS = 6, 2
TOOLS = checks.TOOLS
DIVERGENCE = re.compile(r"not every thread comes|deadlock|the mask |meet in different calls")


def wrong_solutions(lesson):
    """Of the lesson's list, each with its number and its step."""
    found = [bug for bug in bugs.bugs_of(lesson.folder / "test" / "bugs.txt") if bug.says]
    for number, wrong in enumerate(found, 1):
        at, _ = wrong.in_place(lesson.own(wrong.file))
        wrong.number = number
        for step in lesson.steps:
            for function in step.functions:
                if function.file == wrong.file:
                    _, begin, end = function.span(lesson.own(wrong.file))
                    if begin <= at < end:
                        wrong.step, wrong.function = step, function
        if not wrong.step:
            raise Mistake(f"'{wrong.what}': its code is in no function of the exercise")
    return found


def is_given_away(lesson, bug):
    """Whether one sees where a bug is without reading: clang-format, if version 14 is there, lays the file out in another way."""
    if not has_formatter():
        return False
    mine = bug.unseen(lesson.own(bug.file))
    command = ["clang-format", f"--assume-filename={ROOT / lesson.own_path(bug.file)}"]
    return subprocess.run(command, input=mine, text=True, capture_output=True, check=True).stdout != mine


@functools.cache
def has_formatter():
    found = shutil.which("clang-format")
    return bool(found) and " 14." in subprocess.run([found, "--version"], text=True, capture_output=True, check=True).stdout


def places(lesson):
    """What is wrong with an exercise, as far as can be seen without building it."""
    problems = []
    try:
        for file in lesson.files():
            lesson.skeleton(file)
        wrongs = wrong_solutions(lesson)
        kernels = sum(bool(wrong.step.gpu_tests) for wrong in wrongs)
        if len(wrongs) < FEWEST or kernels < min(FEWEST_IN_KERNELS, sum(len(s.gpu_tests) for s in lesson.steps)):
            problems.append(f"{len(wrongs)} wrong solutions, {kernels} of them in kernels; wanted {FEWEST} and {FEWEST_IN_KERNELS}")
        problems += [f"'{wrong.what}': in ./course repair its layout gives it away; wanted that of clang-format" for wrong in wrongs
                     if wrong.level and is_given_away(lesson, wrong)]
    except (Mistake, OSError) as mistake:
        problems.append(str(mistake))
    if not lesson.done:
        problems.append("its README has no `## Done`")
    if [step.number for step in lesson.steps] != list(range(1, len(lesson.steps) + 1)):
        problems.append("its steps are not numbered 1, 2, 3, ...")
    return [f"lesson {lesson.number}: {problem}" for problem in problems]


def with_all_solutions(lesson, file, wrongs):
    """The file's source with a switch over all versions in each function of the exercise."""
    source = lesson.own(file)
    functions = [(function.span(source), function, step) for step in lesson.steps for function in step.functions
                 if function.file == file]
    mark = lambda at, name="": f'#line {source.count(chr(10), 0, at) + 1} "{name or lesson.own_path(file)}"\n'
    for (_, begin, end), function, step in sorted(functions, key=lambda f: -f[0][0]):
        text = f'  if (kv_check::steps < {step.number}) KV_TODO("{function.name}");\n  switch (kv_check::wrong) {{\n'
        for wrong in wrongs:
            if wrong.function == function:
                _, changed = wrong.in_place(lesson.own(file))
                _, b, e = function.span(changed)
                text += f"case {wrong.number}: {{\n{mark(begin, wrong.shown_as)}{changed[b:e]}}} break;\n"
        text += f"default: {{\n{mark(begin)}{source[begin:end]}}}\n}}\n{mark(end)}"
        source = source[:begin] + text + source[end:]
    return f'{substitution.HEAD}#line 1 "{lesson.own_path(file)}"\n{source}'


def write_solutions(lesson, wrongs, build):
    substitution.write(lesson, "solutions", build, lambda file: with_all_solutions(lesson, file, wrongs))


def build_solutions(wrongs_of, options):
    """All lessons' at once: one after the other they would leave a processor idle at the end of each. `wrongs_of`: by lesson."""
    builds = collections.defaultdict(dict)  # by folder and lesson: targets
    for lesson, wrongs in wrongs_of.items():
        builds[options.build][lesson] = {
            target for step in lesson.steps if is_wanted(step, options) for target in runs.targets_of(step, lesson.target, "solutions")}
        for wrong in wrongs:
            if wrong.found_by in TOOLS and is_shown(wrong, options):
                builds[options.build.parent / TOOLS[wrong.found_by]][lesson] = {f"{lesson.target}_gpu_solutions"}
    for build, targets in builds.items():
        build_in(build, {lesson: wrongs_of[lesson] for lesson in targets}, set().union(*targets.values()))


def build_in(build, wrongs_of, targets):
    for lesson, wrongs in wrongs_of.items():
        write_solutions(lesson, wrongs, build)
    ok, words = runs.build(build, sorted(targets))
    if not ok:
        raise Mistake("\n".join(["the solutions do not compile:", *words]))


def is_wanted(step, options):
    return not (options.cpu and step.gpu_tests or options.kernels and not step.gpu_tests)


def is_shown(wrong, options):
    return options.only in wrong.what and is_wanted(wrong.step, options) and not (options.without_tools and wrong.found_by in TOOLS)


def add_halves(parser):
    parser.add_argument("--cpu", action="store_true", help="only steps without kernels, also in a build without a GPU")
    parser.add_argument("--kernels", action="store_true", help="only steps with kernels")


def settings(step, wrong=0):
    return {"KV_CHECK_STEPS": str(step), "KV_CHECK_WRONG": str(wrong)}


def judged(lesson, build, wrong):
    """What is wrong with a wrong solution: empty if its tests find it and say so."""
    if wrong.found_by == "launch rule":
        _, changed = wrong.in_place(lesson.own(wrong.file))
        told = "\n".join(checks.breaks_launch_rule(lesson, wrong.step, {wrong.file: changed}))
        state = "fails" if told else "passes"
    elif wrong.found_by in TOOLS:
        state, told = with_tool(lesson, build, wrong.step, wrong.found_by, wrong.number)
    else:
        results = runs.run_step(build, wrong.step, lesson.target, "solutions", settings(wrong.step.number, wrong.number))
        state = runs.state_of(results)
        told = "\n".join(next((result.report for result in results if result.state == state != "passes"), []))
        if wrong.found_by == "divergence" and not DIVERGENCE.search(told):
            return f"'{wrong.what}': the simulated GPU does not name it. It {state}:\n{told}"
    if state != "fails":
        return f"'{wrong.what}': no test finds it; step {wrong.step.number} {state}"
    if "{?}" in told:
        return f"'{wrong.what}': a value is shown as {{?}}:\n{told}"
    if not re.search(wrong.says, told):
        return f"'{wrong.what}': it is found, but what is shown has no match of /{wrong.says}/:\n{told}"
    return ""


def with_tool(lesson, build, step, tool, wrong):
    """That these tools are silent about the lesson's own kernels is seen by ./course kernel."""
    os.environ.update(settings(step.number, wrong))
    binary = build.parent / TOOLS[tool] / "bin" / f"{lesson.target}_gpu_solutions"
    for case in step.tool_tests:  # until one finds it: these programs are slow, and use all cores
        result, = kernel_runs.run(binary, tool, [case])
        if result.state != "passes":
            return result.state, "\n".join(line for finding in result.findings for line in finding)
    return "passes", ""


def check_lesson(lesson, wrongs, options):
    """(problems, wrong solutions, how many of them were told apart)."""
    shown = [wrong for wrong in wrongs if is_shown(wrong, options)]
    steps = [step for step in lesson.steps if is_wanted(step, options) and not options.only]

    def reference(step):
        for steps, wanted in ((step.number, "passes"), (step.number - 1, "waits")):
            for result in runs.run_step(options.build, step, lesson.target, "solutions", settings(steps)):
                if result.state != wanted:
                    what = "when all up to it is written" if wanted == "passes" else "when it is not written"
                    yield "\n".join([f"step {step.number}, {what}: \"{result.case}\" {result.state}", *result.report])

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = [p for found in pool.map(lambda step: list(reference(step)), steps) for p in found]
        quick = [wrong for wrong in shown if wrong.found_by not in TOOLS]
        found = list(pool.map(lambda wrong: judged(lesson, options.build, wrong), quick))
    for wrong in shown:
        if wrong.found_by in TOOLS:
            found.append(judged(lesson, options.build, wrong))
    missed = [what for what in found if what]
    return [f"lesson {lesson.number}: {problem}" for problem in problems + missed], len(shown), len(shown) - len(missed)


def beyond_hint(theirs, yours):
    """(functions that the lesson's own calls and the learner's does not, its first statement that the other lacks)."""
    strip = lambda text: re.sub(r"//[^\n]*", "", text)
    names = lambda text: dict.fromkeys(re.findall(r"\b[A-Za-z_]\w*(?=\()", strip(text)))
    uses = [name for name in names(theirs) if name not in names(yours) and name not in ("for", "if", "while", "return", "switch", "int64_t")]
    # Whole statements: up to a semicolon, or to the brace of what follows.
    lines = lambda text: [" ".join(part.split()) for part in re.split(r"(?<=[;{}])\s*\n", strip(text).split("{", 1)[1]) if len(part.strip()) > 3]
    return uses, next((line for line in lines(theirs) if line not in lines(yours)), "")


def lines_taken(lesson):
    spans = [(f, f.span(lesson.own(f.file))) for step in lesson.steps for f in step.functions]
    return sum(lesson.own(f.file).count("\n", begin, end) for f, (_, begin, end) in spans)


def table(rows):
    head = ("exercise", "steps", "kernels", "lines", "wrong solutions caught")
    print("\n".join("| " + " | ".join(map(str, row)) + " |" for row in (head, ("---",) * len(head), *rows)))


def check(options):
    lessons = [Lesson(folder) for folder in options.folders] if options.folders else all_lessons()
    problems = [problem for lesson in lessons for problem in places(lesson)]
    rows = []
    if not options.places and not problems:
        wrongs_of = {lesson: wrong_solutions(lesson) for lesson in lessons}
        build_solutions(wrongs_of, options)
        for lesson, wrongs in wrongs_of.items():
            found, wrong, caught = check_lesson(lesson, wrongs, options)
            problems += found
            kernels = sum(function.file.endswith(".cu") for step in lesson.steps for function in step.functions)
            rows.append((lesson.name.replace("_", " ", 1), len(lesson.steps), kernels, lines_taken(lesson), f"{caught} of {wrong}"))
        table(rows)
    for problem in problems:
        print(f"\n{problem}", file=sys.stderr)
    if options.places:
        print(f"{len(lessons)} exercises, {sum(len(lesson.steps) for lesson in lessons)} steps: {len(problems)} problems")
    return 1 if problems or not lessons else 0


def add_arguments(verbs):
    parser = verbs.add_parser("check", help="can every test fail, and does the reference pass?")
    parser.add_argument("folders", nargs="*", type=pathlib.Path, help="lessons/NN_topic; default: all")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "simt", help="default: build/simt")
    parser.add_argument("--only", metavar="TEXT", default="", help="only the wrong solutions whose first line has this")
    add_halves(parser)
    parser.add_argument("--without-tools", action="store_true", help="without --races and --bounds, which need builds of their own")
    parser.add_argument("--places", action="store_true", help="only whether all that the texts name is there; builds nothing")
