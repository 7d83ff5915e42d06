"""Which step's functions are the cause? The lesson's own take their place, a step at a time, until a failing test passes.

The programs lessonNN_substituted have both versions of each function of the exercise; an environment variable says in
which steps the lesson's own run. Where a learner's file does not fit together with the lesson's bodies, nothing is said."""
import concurrent.futures
import os

from . import runs
from .lesson import Mistake

HEAD = """// Written by tools/exercise.py.
#ifndef KV_CHECK_NUMBERS  // a header and the file that includes it both begin with this
#define KV_CHECK_NUMBERS
#include <cstdlib>
#include "common/todo.h"
namespace kv_check {
inline int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}
inline const int steps = number("KV_CHECK_STEPS", 99), wrong = number("KV_CHECK_WRONG", 0), own = number("KV_CHECK_OWN", 0);
}  // namespace kv_check
#endif
"""


def write(lesson, what, build, text_of):
    """The files of a folder in the build, which kv_exercise() in cmake/kv_lesson.cmake makes programs of."""
    folder = build / "lessons" / lesson.name / what
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in lesson.files():
            path.unlink()
    for file in lesson.files():
        text = text_of(file)
        if not (folder / file).exists() or (folder / file).read_text(encoding="utf-8") != text:
            (folder / file).write_text(text, encoding="utf-8")


def with_both(lesson, file):
    """The learner's file, with the lesson's own body beside his in each function of the exercise."""
    source, own = lesson.written(file), lesson.own(file)
    line = lambda text, at, path: f'#line {text.count(chr(10), 0, at) + 1} "{path}"\n'
    places = [(function.span(source), function.span(own), step) for step in lesson.steps for function in step.functions if function.file == file]
    for (_, begin, end), (_, own_begin, own_end), step in sorted(places, key=lambda place: -place[0][0]):
        source = (f"{source[:begin]}if (kv_check::own >> {step.number} & 1) {{\n{line(own, own_begin, lesson.own_path(file))}{own[own_begin:own_end]}}}"
                  f" else {{\n{line(source, begin, lesson.place(file))}{source[begin:end]}}}\n{line(source, end, lesson.place(file))}{source[end:]}")
    return f'{HEAD}#line 1 "{lesson.place(file)}"\n{source}'


def cause(lesson, folder, targets, passes, first=None):
    """Lines about where the cause is; none if that is known or cannot be told.

    `passes(environment)` runs the failing test in the programs `targets`. `first`: the step whose test it is."""
    try:
        for place in {runs.home(folder, target) for target in targets}:
            write(lesson, "substituted", place, lambda file: with_both(lesson, file))
    except Mistake:
        return []
    written = [step for step in lesson.steps if not lesson.is_unwritten(step)]
    once = lambda steps: passes({"KV_CHECK_OWN": str(sum(1 << step.number for step in steps))})
    with_own = lambda steps: all(once(steps) for _ in range(3))  # a race passes now and then
    if written == [first] or not runs.build(folder, targets)[0] or first and with_own([first]) or any(once([]) for _ in range(3)):
        return []
    others = [step for step in written if step is not first]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        mended = [step for step, ok in zip(others, pool.map(lambda step: with_own([step]), others)) if ok]
    if mended:
        names = " and ".join(f"{function.name}()" for function in mended[0].functions)
        return [f"With the lesson's own {names}, step {mended[0].number}, this passes" + (f": look there, and not at step {first.number}." if first else ": look there.")]
    if with_own(written):
        return ["No step's functions alone make this pass if the lesson's own take their place: more than one has a mistake."]
    return ["It fails with the lesson's own functions, too, so the cause is beside them: in what else you have changed in these files."]
