#!/usr/bin/env python3
"""The exercises: a lesson's code with its heart taken out, to be written step by step under its tests.

options:
  -h, --help                      shows this help
  --watch                         again whenever a file is saved, until all steps pass; Ctrl-C ends it
  --hint                          a hint for the next step; again: what to call, and then a statement of the
                                  lesson's own (they come by themselves after 2, 4 and 6 failures)
  --all                           the tests of all steps
  --diff [STEP]                   a step that passes, compared with the lesson's code
  --reset FILE                    starts a file over; what was written is kept ("all": every file)
  --undo, --redo                  brings back all that the last --reset put aside; again and again, and forth
  --races, --bounds, --traffic    what the simulated GPU's tools say of the kernels written so far

Without an option: what is next; and once it is written, the tests of that step.

A kernel counts once its tests, --races and --bounds have found nothing: "?" until then. When all steps count,
"the whole" runs: all tests of the lesson, and a short ladder on your files, with equal bits.

Exit code: 0 all steps pass, 1 a test fails, 77 something is still to be written, 2 wrong use."""
import argparse
import os
import pathlib
import re
import sys
import time

import course_arguments
import course_builds
import kernel_runs
from exercises import checks, mine, mutants, repair, runs, solutions, substitution
from exercises.lesson import ROOT, Lesson, Mistake, has_hole, sentence, wrapped
from exercises.runs import WAITS, coloured

GREEN, RED, YELLOW, BOLD = "32", "31", "33", "1"


def say(*lines, indent=""):
    for line in lines:
        print(f"{indent}{line}".rstrip())


def paragraph(text):
    say(*wrapped(text, runs.width() - 2), indent="  ")
    print()


def where(lesson, step):
    for function in step.functions:
        try:
            line = f":{function.line(lesson.written(function.file))}"
        except Mistake:
            line = ""
        yield f"{function.name}()", f"{lesson.place(function.file)}{line}"


def show_functions(lesson, step):
    for (name, place), text in zip(where(lesson, step), lesson.written_functions(step)):
        say(f"  {coloured(name, BOLD)}   in {place}{'   (still to be written)' if has_hole(text) else ''}")
    print()


def show_hint(lesson, step, level):
    """1: the idea. 2: what the lesson's own code calls. 3: a statement of it."""
    say(coloured("Hint", YELLOW))
    paragraph(step.hint)
    for function, yours in zip(step.functions, lesson.written_functions(step)) if level > 1 else ():
        uses, line = solutions.beyond_hint(function.text(lesson.own(function.file)), yours)
        if uses:
            say(*wrapped(f"The lesson's own {function.name}() also calls {', '.join(uses)}.", runs.width() - 2), "", indent="  ")
        if level > 2 and line:
            say("A statement of it that yours lacks, at least in these words:", f"    {line}", "", indent="  ")
    if level < 3:
        say(f"  More: ./course exercise {lesson.number} --hint, once more", "")


def hint_level(lesson, step, options):
    """How much is said: one level more each time that it is asked for, or after two more failures."""
    key = str(step.number)
    asked = min(3, lesson.kept["hints"].get(key, 0) + bool(options.hint))
    if options.hint:
        lesson.kept["hints"][key] = asked
        lesson.keep()
    return max(asked if options.hint else 0, min(3, lesson.kept["failed"].get(key, 0) // 2))


def show_next(lesson, step, options):
    say("", coloured(f"Next: {step}", BOLD), "")
    show_functions(lesson, step)
    for text in step.text:
        paragraph(text)
    if options.hint:
        show_hint(lesson, step, hint_level(lesson, step, options))
    again = "Save the file, and its tests run." if options.watch else f"Then: ./course exercise {lesson.number}"
    say(again + ("" if options.hint else f"      A hint: ./course exercise {lesson.number} --hint"))


def show_failure(lesson, step, results, options):
    result = next(result for result in results if result.state == "fails")
    say("", coloured(f"A test of step {step.number} fails: {sentence(step.title)}", RED), "")
    say(f'  "{result.case}"')
    say(*result.report, indent="    ")
    say(*runs.shown_test(result.report), "")
    show_functions(lesson, step)
    if level := hint_level(lesson, step, options):
        show_hint(lesson, step, level)
    cases = lambda passing: {result.case for result in results if (result.state == "passes") == passing}
    passed = len(cases(True) - cases(False))  # a test of a kernel may have run two times
    tests = len(step.tests + step.gpu_tests)
    say("The step has no other test." if tests == 1 else f"{passed or 'None'} of the step's {tests} tests pass{'' if passed else 'es'}.")
    others = dict.fromkeys(r.case for r in results if r.state == "fails" and r.case != result.case)
    say(*(f'  "{case}" fails, too.' for case in others))
    if step.gpu_tests:
        has_no_line = result.crashed and not result.endless and "exercise/" not in "".join(result.report)
        say(f"In which line of yours: ./course exercise {lesson.number} --bounds" if has_no_line else
            f"What the simulated GPU's tools say: ./course exercise {lesson.number} --races (and --bounds)")


def show_cause(lesson, step, folder, results):
    """After the verdict, as it takes a moment: whether an earlier step is the cause."""
    sys.stdout.flush()
    result = next(result for result in results if result.state == "fails")
    gpu = "" if result.case in step.tests else "gpu_"
    program = f"{lesson.target}_{gpu}substituted"
    if result.case in step.tests + step.gpu_tests and "look there, and not at" not in "\n".join(result.report):
        limit = runs.LIMIT_S * (4 if gpu else 1)
        passes = lambda own: runs.run_case(runs.program(folder, program), result.case, {**own, "SIMT_SEED": "0"}, limit).state == "passes"
        say(*(coloured(line, BOLD) for line in substitution.cause(lesson, folder, [program], passes, step)))


def show_done(lesson):
    say("", coloured(f"Lesson {lesson.number}: all {len(lesson.steps)} steps pass.", GREEN), "")
    for text in lesson.done.split("\n\n"):
        paragraph(text)
    n = lesson.number
    say(f"See it run         ./course run {n} --mine, ./course viz {n} --mine, ./course run --mine",
        f"Compare a step     ./course exercise {n} --diff 1")
    following = sorted(path for path in ROOT.glob("lessons/[0-9][0-9]_*/README.md") if path.parent.name > lesson.name)
    if following:
        say(f"The next lesson    {following[0].relative_to(ROOT)}")


def compiles(lesson, step, folder):
    if step.gpu_tests:
        checks.end_background(folder)  # which may build just that, at leisure
    ok, words = runs.build(folder, runs.targets_of(step, lesson.target))
    if words:
        say(*words)
        print()
    if not ok and words != runs.NO_GPU:
        say(coloured(runs.verdict(words), RED))
    return ok


def try_step(lesson, step, folder):
    """passes, fails, waits or broken (it does not compile); and the tests' results."""
    if not compiles(lesson, step, folder):
        return "broken", []
    results = runs.run_step(folder, step, lesson.target)
    state = runs.state_of(results)
    if state == "passes" and (broken := checks.breaks_launch_rule(lesson, step)):
        state, results = "fails", [runs.Result("the kernel lets the next one start", "fails", broken), *results]
    if first := next((result for result in results if result.state == "fails"), None):
        checks.second_look(lesson, step, first, folder, {result.case for result in results if result.state == "passes"})
    key = str(step.number)
    if state == "passes":
        lesson.kept["passed"][key] = lesson.digest(step)
        lesson.kept["failed"].pop(key, None)
        lesson.kept["hints"].pop(key, None)
    else:
        lesson.kept["passed"].pop(key, None)
        lesson.kept["failed"][key] = lesson.kept["failed"].get(key, 0) + (state == "fails")
    lesson.keep()
    return state, results


def work(lesson, folder, options):
    """One look at all that is written. Returns the exit code."""
    made = lesson.make()
    if made:
        say("These files are yours now:", *(f"  {path}" for path in made), "")
    code = steps_in_turn(lesson, folder, options, bool(made)) or look_at_kernels(lesson, folder) or whole(lesson, folder, options)
    if code == 0:
        show_done(lesson)
    mark = "; ? : --races and --bounds have not passed yet" if "?" in mine.bar(lesson) else ""
    say("", f"Lesson {lesson.number}  {mine.bar(lesson)}  {lesson.num_passed()} of {len(lesson.steps)} steps pass{mark}")
    if code != 0 and sys.stdout.isatty():
        checks.background(lesson, folder)
    return code


def look_at_kernels(lesson, folder, steps=None, must=True):
    """--races and --bounds for kernels that pass their tests. `must`: also if that builds for minutes."""
    for step in steps or [step for step in lesson.steps if lesson.tools_left(step)]:
        ready = checks.is_ready(lesson, folder, "races")
        if ready or must:
            takes = "a minute or so" if ready else "minutes: their builds are made, once"
            print(f"Step {step.number}: now --races and --bounds look at it, for {takes} ...", flush=True)
        state, lines = checks.look(lesson, step, folder, must)
        if state == "fails":
            say("", coloured(f"Step {step.number} passes its tests, and yet: ", RED), "", *(f"  {line}" for line in lines), "")
            show_functions(lesson, step)
            return 1
        found = [f"Step {step.number}: --races and --bounds find nothing."] if state == "passes" else []
        say(*found, *lines)
    return 0


def whole(lesson, folder, options):
    """The last step: all that the lesson tests, and the ladder."""
    if lesson.kept["whole"] == lesson.digest() and not options.all:
        return 0
    print("\nAll steps pass. The whole: every test of the lesson, and a short ladder on your files ...", flush=True)
    lines = checks.whole(lesson, folder)
    if lines:
        say("", coloured("All steps pass, but the whole does not:", RED), "", *(f"  {line}" for line in lines))
        return 1
    lesson.kept["whole"] = lesson.digest()
    lesson.keep()
    say(coloured("The whole passes: all tests, and the bits of the ladder.", GREEN))
    return 0


def steps_in_turn(lesson, folder, options, is_new):
    """The exit code."""
    code = 0
    for step in lesson.steps:
        if lesson.passes(step) and not options.all:
            if lesson.tools_left(step) and checks.is_ready(lesson, folder, "races") and look_at_kernels(lesson, folder, [step], False):
                return 1
            continue
        if lesson.is_unwritten(step):
            if code == 0:
                if is_new:  # something to read while it builds
                    show_next(lesson, step, options)
                    sys.stdout.flush()
                if not compiles(lesson, step, folder):
                    return 1
                if not is_new:
                    show_next(lesson, step, options)
                code = WAITS
            if not options.all:
                return code
            continue
        state, results = try_step(lesson, step, folder)
        if state == "passes":
            say(coloured(f"Step {step.number} passes: {step.title}", GREEN))
            all_pass = all(map(lesson.passes, lesson.steps))  # then work() looks, and makes the builds first
            if lesson.tools_left(step) and not all_pass and look_at_kernels(lesson, folder, [step], False):
                return 1
        elif state == "waits":
            waits = next(result for result in results if result.state == "waits")
            say("", f'Step {step.number}: "{waits.case}" waits for {waits.report[0]}')
            code = code or WAITS
        elif state == "fails" and code != 1:
            show_failure(lesson, step, results, options)
            show_cause(lesson, step, folder, results)
        elif state == "fails":
            say(coloured(f"Step {step.number} fails: {step.title}", RED))
        if state in ("broken", "fails"):
            code = 1
        if state == "broken" or (code and not options.all):
            return code
    return code


def watch(lesson, folder, options):
    def saved():
        return {file: lesson.written(file) for file in lesson.files()}

    code = 0
    try:
        while True:
            if sys.stdout.isatty():
                print("\033[2J\033[H", end="")
            before = saved()
            code = work(lesson, folder, options)
            if code == 0:
                return 0
            say("", "Watching your files. Ctrl-C ends.")
            sys.stdout.flush()
            while saved() == before:
                time.sleep(0.2)
            time.sleep(0.1)  # an editor may write in two goes
    except KeyboardInterrupt:
        checks.end_background(folder)
        print()
        return code


def diff(lesson, wanted):
    passing = [step for step in lesson.steps if lesson.passes(step)]
    steps = [step for step in lesson.steps if step.number == wanted] if wanted else passing[-1:]
    if wanted and not steps:
        raise Mistake(f"there is no step {wanted}; there are {len(lesson.steps)}")
    if not steps or steps[0] not in passing:
        what = f"step {steps[0].number}, \"{steps[0].title}\", does not pass yet" if steps else "no step passes yet"
        raise Mistake(f"{what}; --diff shows the lesson's code, which is the answer")
    for function, mine in zip(steps[0].functions, lesson.written_functions(steps[0])):
        mine = re.sub(r"(?m)^  // Step \d+: .*\n(  //.*\n)*", "", mine)  # the skeleton's
        runs.compare(f"{function.name}()", mine, function.text(lesson.own(function.file)), 99)
    return 0


def with_tool(lesson, folder, options):
    """The tests of the kernels written so far, in a build with one of the simulated GPU's tools."""
    lesson.make()
    steps = [step for step in lesson.steps if step.gpu_tests and not lesson.is_unwritten(step)]
    if not steps:
        say("No kernel is written yet." if any(step.gpu_tests for step in lesson.steps) else "This exercise has no kernel.")
        return WAITS
    binary, own = (folder / "bin" / f"{lesson.target}_gpu_{what}" for what in ("exercise", "test"))
    ok, words = runs.build(folder, [binary.name, *[own.name] * (options.tool == "traffic")])
    if not ok:
        say(*words)
        return 1
    cases = list(dict.fromkeys(case for step in steps for case in step.tool_tests))
    if options.tool == "traffic":
        pattern = ",".join(case.replace("\\", "\\\\").replace(",", "\\,") for case in cases)
        command = f"./course exercise {lesson.number}"
        return kernel_runs.traffic(binary, [lesson.exercise], command, folder / f"{lesson.target}_traffic.svg", True, pattern, own)
    results = kernel_runs.run(binary, options.tool, cases)
    checks.note(lesson, options.tool, results)
    return kernel_runs.show(results)


def learn(options):
    lesson = Lesson(options.folder)
    options.build = options.build or course_builds.exercise_folder(os.environ.get("COURSE_PRESET"), options.tool)
    if not lesson.steps:
        raise Mistake(f"{lesson.place('README.md')} has no steps")
    for verb, before in (("undo", "--reset"), ("redo", "--undo")):
        if getattr(options, verb):
            for file, kept in getattr(lesson, verb)():
                say(f"{file} is what it was before the last {before}; what stood there is kept in {kept}")
            return 0
    if options.reset:
        lesson.make()
        done = lesson.reset(options.reset)
        for file, kept in done:
            say(f"{file} starts over; what you wrote is kept in {kept} (--undo brings it back)")
        if not done:
            say("Nothing is written there yet, so there is nothing to put aside.")
        return 0
    if options.diff is not None:
        return diff(lesson, options.diff)
    if options.tool:
        return with_tool(lesson, options.build, options)
    return (watch if options.watch else work)(lesson, options.build, options)


def main():
    prog = {"learn": "./course exercise N", "repair": "./course repair N"}.get("".join(sys.argv[1:2]), "exercise.py")
    parser = course_arguments.Parser(prog=prog, description=repair.__doc__ if prog == "./course repair N" else __doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    learning = verbs.add_parser("learn", help="./course exercise N", description=__doc__, prog="./course exercise N")
    learning.add_argument("folder", type=pathlib.Path, help=argparse.SUPPRESS)
    learning.add_argument("--build", type=pathlib.Path, help=argparse.SUPPRESS)
    for flag in ("watch", "hint", "all", "undo", "redo"):
        learning.add_argument(f"--{flag}", action="store_true", help=argparse.SUPPRESS)
    learning.add_argument("--diff", nargs="?", type=int, const=0, metavar="the number of a step", help=argparse.SUPPRESS)
    learning.add_argument("--reset", metavar="a file of yours, or all", help=argparse.SUPPRESS)
    for tool in ("races", "bounds", "traffic"):
        learning.add_argument(f"--{tool}", dest="tool", action="store_const", const=tool, help=argparse.SUPPRESS)
    verbs.add_parser("progress", help="a line over all lessons")
    blaming = verbs.add_parser("blame", help="in which lesson's files of the learner is an error?")
    blaming.add_argument("--build", type=pathlib.Path, required=True)
    blaming.add_argument("--up-to", type=int, default=99, metavar="N")
    choosing = verbs.add_parser("mine", help="chooses the learner's files for the programs of a build folder")
    choosing.add_argument("--build", type=pathlib.Path, required=True, help="the build folder in which they are tested")
    choosing.add_argument("--up-to", type=int, default=99, metavar="N", help="the program's lesson: none after it")
    choosing.add_argument("--into", type=pathlib.Path, required=True, help="that of the programs")
    choosing.add_argument("--repair", action="store_true", help="those of ./course repair, of that lesson")
    repair.add_arguments(verbs)
    solutions.add_arguments(verbs)
    mutants.add_arguments(verbs)
    options = parser.parse_args()
    os.environ.setdefault("SIMT_MEMORY", "16")  # GiB, for tests past 2^31 elements; what is not touched takes no memory
    return {"check": solutions.check, "repair": repair.repair, "mutants": mutants.run, "learn": learn, "progress": mine.progress, "mine": mine.choose, "blame": mine.blame}[options.verb](options)


if __name__ == "__main__":
    course_arguments.end_with(main, Mistake)
