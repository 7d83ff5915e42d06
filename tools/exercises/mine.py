"""What the learner has so far: over all lessons, and for programs that run on it."""
import textwrap

from . import checks, runs
from .lesson import ROOT, Mistake, all_lessons


def begun():
    """Lessons in which the learner has files."""
    return [lesson for lesson in all_lessons() if any(lesson.written(file) for file in lesson.files())]


def bar(lesson):
    """A kernel that passes its tests is a "?" until --races and --bounds have found nothing in it."""
    return "".join("#" if lesson.counts(step) else "?" if lesson.passes(step) else "." for step in lesson.steps)


def progress(_):
    """A few lines over all lessons, and what is next in one that is begun; nothing before an exercise is begun."""
    if not begun():
        return 0
    lessons = all_lessons()
    passed, steps = sum(lesson.num_passed() for lesson in lessons), sum(len(lesson.steps) for lesson in lessons)
    bars = textwrap.wrap("  ".join(f"{lesson.number:02d}_{bar(lesson)}" for lesson in lessons), 78, initial_indent="  ", subsequent_indent="  ",
                         break_on_hyphens=False)
    bars = [line.replace("_", " ") for line in bars]
    print(f"\nExercises: {passed} of {steps} steps pass", *bars, sep="\n")
    following = [(lesson, lesson.next_step()) for lesson in [*begun(), *lessons] if lesson.next_step()]
    if following:
        lesson, step = following[0]
        print(f"Next: lesson {lesson.number}, {step}: ./course exercise {lesson.number}")
    return 0


def passing_steps(lesson, folder):
    """Numbers of the steps that pass with all that is written now; remembered until something changes."""
    if lesson.kept["tested"].get("digest") != lesson.digest():
        written = [step for step in lesson.steps if not lesson.is_unwritten(step)]
        print(f"Testing what you wrote in lesson {lesson.number} ...", flush=True)
        targets = {target for step in written for target in runs.targets_of(step, lesson.target)}
        ok, _ = runs.build(folder, sorted(targets)) if targets else (True, [])
        if not ok:
            print(f"  It does not compile: ./course exercise {lesson.number} shows why.")
        numbers = [step.number for step in written if ok and runs.state_of(runs.run_step(folder, step, lesson.target)) == "passes"]
        lesson.kept["tested"] = {"digest": lesson.digest(), "steps": numbers}
        lesson.keep()
    return lesson.kept["tested"]["steps"]


def choose(options):
    """Chooses the learner's files that pass, for the programs of the build folder options.into."""
    chosen, others = [], []
    if options.repair:
        folder = next(lesson.folder for lesson in all_lessons() if lesson.number == options.up_to)
        files = sorted(path for path in (folder / "repair").glob("*.c*"))
        if not files:
            raise Mistake(f"nothing is to mend in lesson {options.up_to} yet: ./course repair {options.up_to}")
        print(f"On your copy, {(folder / 'repair').relative_to(ROOT)}:", flush=True)
        return write_list(options.into, [path.relative_to(ROOT) for path in files])
    cuda = "_gpu_test" in (options.into / "build.ninja").read_text(encoding="utf-8")
    for lesson in begun():
        if lesson.number > options.up_to:
            continue
        lesson.make()
        passing = passing_steps(lesson, options.build)
        for file in lesson.files():
            steps = [step.number for step in lesson.steps if any(f.file == file for f in step.functions)]
            missing = [number for number in steps if number not in passing]
            if missing:
                others.append(f"{lesson.number:02d} {file}: yours waits or fails, step {', '.join(map(str, missing))}")
            elif file.endswith(".cu") and not cuda:
                others.append(f"{lesson.number:02d} {file}: yours passes, but this build has no GPU: COURSE_PRESET=simt, --device cuda")
            else:
                chosen.append(lesson.place(file))
    if not chosen:
        where = f" up to lesson {options.up_to}" if options.up_to < 99 else ""
        print(f"Nothing of yours{where} passes all its steps yet: ./course exercise N says what is next.")
        return runs.WAITS
    print("Yours:", *(f"  {path}" for path in chosen), sep="\n")
    if others:
        print("The lesson's own:", *(f"  {other}" for other in others), sep="\n")
    print("If what follows ends with an error, or with other bits than lesson 01: the cause is in your files, as the lessons'\n"
          "own pass. ./course exercise N --all tests all of lesson N.")
    print(flush=True)
    return write_list(options.into, chosen)


def write_list(build, chosen):
    """For cmake/kv_lesson.cmake."""
    text = "".join(f"{path}\n" for path in chosen)
    listed = build / "mine.txt"
    if not listed.exists() or listed.read_text(encoding="utf-8") != text:
        listed.write_text(text, encoding="utf-8")
    return 0


def blame(options):
    """After a program on the learner's files has ended with an error: in which lesson's files is the cause?"""
    print("\nThat may be an error in your files. Each lesson of yours alone, against the lesson's own files:", flush=True)
    for lesson in begun():
        if lesson.number > options.up_to or not lesson.kept["tested"].get("steps"):
            continue
        lines = [] if lesson.kept["whole"] == lesson.digest() else checks.whole(lesson, options.build)
        if lines:
            print(f"The error is in your lesson {lesson.number}: {', '.join(str(lesson.place(file)) for file in lesson.files())}")
            print(*(f"  {line}" for line in lines), f"More: ./course exercise {lesson.number} --all", sep="\n")
            return 1
        print(f"  lesson {lesson.number}: all its tests pass, and a short ladder has the lesson's bits")
    print("None of them fails alone.")
    return 0
