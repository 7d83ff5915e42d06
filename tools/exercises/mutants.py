"""exercise.py mutants: small errors that a tool makes in the lesson's own solution. Do a step's tests find them?

Each mutant changes one place of one function of an exercise. All mutants of a lesson are built into one program, as
wrong solutions are (solutions.py). A mutant is found if a test of its step fails.
What no test finds is listed: lessons/NN_topic/test/bugs.txt has those that may survive, and why (tools/bugs.py)."""
import concurrent.futures
import dataclasses
import math
import os
import pathlib
import re
import resource
import subprocess

import bugs

from . import checks, runs, solutions
from .lesson import Lesson, Mistake, all_lessons

OF_STEP, OF_FUNCTION = 18, 7  # how many mutants: of a step, and of each of its functions at least
LIMIT_S = float(os.environ.get("KV_EXERCISE_SECONDS", "10"))
MEMORY = 6 << 30  # a loop that never ends may fill a vector; kernels' tests reserve more, and use little of it
STATEMENT = (r"(?m)^ {2,}(?!return|else|case|using|for|if|while|default|const |auto\b|[\w:]+(?:<[^;]*>)?[&*]? \w+ ?[={(;])"
             r"[\w*(+-][\w:*>.\-\[\]()+]*(?:[^;{}\n]|\{[^;{}\n]*\})*;")
WIDE = r"\bint64_t(?=[{>])(?!>\(\w+\.size)|(?<=const )int64_t(?! (?:width|row|rows|num_\w+|stride|begin|end)\b)"  # counts are never so large
# Tried always; spread over a function; and where there are too few.
CHANGES = [
    [(r"(?:kv::)?wait_for_predecessors\(\);", ""), (r"(?:kv::)?sync_\w+\([^()]*\);|__sync\w+\([^()]*\);", ""), (r"-INFINITY", "0.0f"),
     (r"-std::numeric_limits<float>::infinity\(\)", "0.0f")],
    [(r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "), (r" != ", " == "), (r" && ", " || "),
     (r" \|\| ", " && "), (r" \+ 1\b", ""), (r" - 1\b", ""), (r" \+ (?=[\w(])", " - "), (r" - (?=[\w(])", " + "),
     (r"(?<=[\w)\]]) \* (?=[\w(])", " + "), (r" / ", " * "), (r" % ", " / "), (r" \+= ", " = "), (r" -= ", " += "), (WIDE, "int32_t"),
     (r"(?<=; )\+\+(\w+)\)", r"\1 += 2)"), (r"\bstd::min\b", "std::max"), (r"\bstd::max\b", "std::min"), (r"(?<=[\w\])] )= 0;", "= 1;"), (r"\[0\]", "[1]"),
     (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"\breturn (?!false|0;|std::nullopt)(?=[\w!(*][^;]*;)", "return {}; "),
     (r"(?<=[(,] )([\w.>-]+), ([\w.>-]+)(?=[,)])", r"\2, \1"), (r"(?<=\()(?<!min\()(?<!max\()(?!args\.cache|cache)([\w.>-]+), ([\w.>-]+)(?=[,)])", r"\2, \1"),
     (r"\bif \((?!const|auto|int)", "if (false && "), (r"\bif \(!", "if ("), (r"\.begin\(\)", ".end()"), (r"\.back\(\)", ".front()"),
     (r"\.front\(\)", ".back()"), (r"push_back\(", "push_back({}), void("), (r"\bk_row", "v_row"), (r"\bv_row", "k_row"),
     (r"\bcontinue;", "break;"), (STATEMENT, ""),
     (r"(?<=\) )(?!return|throw|continue|break)[a-z_][\w.:\[\]*()>-]*[^;{}\n]*;", ";")],
    [(STATEMENT.replace(")[\\w*(+-]", ")(?=[^;]*(?:\\+\\+|\\+=|--|push|insert|append|emplace|remove|free|release|add))(?![^;]* = )[\\w*(+-]"), r"\g<0> \g<0>"), (r"\b1\b", "2"), (r"\b0\b", "1"), (r"(?<=[\w)\]]) \* [\w.]+", ""), (r"\bprev\b", "next"), (r"\bnext\b", "prev"),
     (r" &&\s+[^;&|]+;", ";"), (r"\breturn [^;&|]+ &&\s", "return "), (r" == ", " <= "), (r" == ", " >= "), (r" && [^;&|)]+", ""), (r" \|\| [^;&|)]+", ""), (r"\bif \((?!const|auto|int)", "if (true || "), (r"!(?=\w)", ""), (r" - [\w.()]+", ""),
     (r" \+ [\w.()]+", ""), (r"\?([^:;?]+) :([^;?]+);", r"?\2 :\1;"), (r"\breturn (?=[\w!(*][^;]*;)", "return 1 + "), (r" = (?!true|false)(?=[\w(*])", " = 1 + "),
     (r"\breturn (?=[\w!(*][^;]*;)", "return !")]]


@dataclasses.dataclass
class Mutant(bugs.Bug):
    at: int = 0
    to: int = 0
    line: int = 0

    def in_place(self, source):
        return self.at, source[: self.at] + self.new + source[self.to :]


def code_of(text):
    """The text with blanks instead of comments, strings, asserts, and what only makes a kernel faster; so places stay."""
    blank = lambda pattern, text: re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)
    text = blank(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|#pragma[^\n]*", text)
    return blank(r"\bassert\([^;]*;|(?:kv::)?let_successors_start\(\);|\b(?:fmt::format|user_error)\([^;]*|[\w.]+\.reserve\([^;]*;", text)


def spread(found, most):
    return [found[i * len(found) // most] for i in range(most)] if len(found) > most else found


def mutants_of(source, begin, end, most):
    """(begin, end, new text) of at most `most` changes in source[begin:end], in order."""
    code, chosen = code_of(source), []
    for changes in CHANGES:
        found = {}
        for pattern, new in changes:
            for match in re.compile(pattern).finditer(code, begin, end):
                whole = not pattern.startswith("(?m)^") or re.search(r"[;{})]\s*$", code[:match.start()])  # and no end of one
                blanks = len(match[0]) - len(match[0].lstrip()) if pattern.startswith("(?m)^") else 0
                if whole and ("\\" not in new or match[0] == source[match.start():match.end()]):
                    found.setdefault((match.start() + blanks, match.end(), match.expand(new)[blanks:]))
        known = {source[:at] + new + source[to:] for at, to, new in chosen}
        found = sorted({source[:at] + new + source[to:]: (at, to, new) for at, to, new in found}.items(), key=lambda f: f[1])
        found = [change for text, change in found if text not in known]
        chosen += found if changes is CHANGES[0] else spread(found, max(0, most - len(chosen)))
    return sorted(chosen)


def named(file, source, at, to, new):
    """`file: its line, with <<what was => what is>>`."""
    first, last = source.rfind("\n", 0, at) + 1, source.find("\n", to)
    text = f"{source[first:at]}<<{source[at:to]} => {new}>>{source[to:last]}"
    return f"{file}: " + " ".join(re.sub(r"\s+//[^<>]*$", "", text).split())


def of_lesson(lesson):
    found = []
    for step in lesson.steps:
        for function in step.functions:
            source = lesson.own(function.file)
            _, begin, end = function.span(source)
            for at, to, new in mutants_of(source, begin, end, max(OF_FUNCTION, math.ceil(OF_STEP / len(step.functions)))):
                key = named(function.file, source, at, to, new)
                twice = [m for m in found if m.what.split("   ")[0] == key]
                key += f"   ({function.name}, line {len(twice) + 1} of this kind)" if twice else ""
                number = len(found) + 1
                found.append(Mutant(lesson.name[:2], function.file, lesson.own_path(function.file), key, source[at:to], new, number=number, step=step,
                                    function=function, shown_as=f"mutant_{number}", at=at, to=to, line=source.count("\n", 0, at) + 1))
    return found


def compiled(lesson, mutants, options):
    """Those that compile, built."""
    targets = sorted({target for m in mutants for target in runs.targets_of(m.step, lesson.target, "solutions")})
    while mutants:
        solutions.write_solutions(lesson, mutants, options.build)
        command = ["ninja", "-C", str(options.build), "-k", "0", "-j", os.environ.get("COURSE_JOBS") or str(os.cpu_count()), *targets]
        done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")
        if done.returncode == 0:
            break
        # An error in a template of the standard library is in the mutant that needs it, named before it.
        needed_by = r"(?:mutant_(\d+):\d+:\d+: +required from.*\n(?:(?!.*error:).*\n){0,9}/\S+:\d+:\d+: error:)"
        broken = {int(a or b) for a, b in re.findall(rf"mutant_(\d+):\d+:\d+: (?:fatal )?error:|{needed_by}", done.stdout)}
        if not broken:
            raise Mistake("the mutants do not compile:\n" + done.stdout[-3000:])
        mutants = [m for m in mutants if m.number not in broken]
    return mutants


def is_found(lesson, mutant, build, tools):
    """By the step's tests, one after the other until one fails; by the simulated GPU's tools, if wanted."""
    step, settings = mutant.step, solutions.settings(mutant.step.number, mutant.number)
    jobs = [("", case, {}) for case in step.tests]
    seeds = ("0", "7") if runs.is_simulated(build) else ("0",)
    jobs += [("_gpu", case, {"SIMT_SEED": seed}) for seed in seeds for case in step.gpu_tests]
    for gpu, case, more in jobs:
        result = runs.run_case(build / "bin" / f"{lesson.target}{gpu}_solutions", case, {**settings, **more}, LIMIT_S)
        if result.state != "passes":
            return "tests"
    for tool in checks.TOOLS if tools and step.gpu_tests else ():
        if solutions.with_tool(lesson, build, step, tool, mutant.number)[0] != "passes":
            return tool
    return ""


def check_lesson(lesson, options):
    """Prints what is found and what survives; returns (problems, mutants, found, equal)."""
    wanted = [m for m in of_lesson(lesson) if options.step in (0, m.step.number) and solutions.is_wanted(m.step, options)]
    mutants = compiled(lesson, wanted, options)
    kept, problems = bugs.survivors(lesson.folder / "test" / "bugs.txt"), 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        reference = [r for step in {m.step.number: m.step for m in mutants}.values()
                     for r in runs.run_step(options.build, step, lesson.target, "solutions", solutions.settings(step.number)) if r.state != "passes"]
        if reference:
            raise Mistake(f'lesson {lesson.number} without an error: "{reference[0].case}" {reference[0].state}\n' + "\n".join(reference[0].report))
        found = {}
        for kernels in (False, True):
            resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY if kernels else MEMORY, resource.RLIM_INFINITY))
            chosen = [m for m in mutants if bool(m.step.gpu_tests) == kernels]
            found |= zip((m.number for m in chosen), pool.map(lambda m: is_found(lesson, m, options.build, False), chosen))
        found = [found[m.number] for m in mutants]
    if options.tools:
        for preset in checks.TOOLS.values():
            solutions.build_in(options.build.parent / preset, {lesson: mutants}, [f"{lesson.target}_gpu_solutions"])
        found = [f or is_found(lesson, m, options.build, True) for m, f in zip(mutants, found)]
    rows = []
    for step in lesson.steps:
        mine = [(m, f) for m, f in zip(mutants, found) if m.step is step]
        alive = [m for m, f in mine if not f]
        equal = [m for m in alive if kept.get(m.what, ("",))[0] == "equal"]
        if mine:
            rows.append((len(mine), len(mine) - len(alive), len(equal)))
            print(f"  {lesson.number:02d}.{step.number}  {len(mine):3} mutants  {len(mine) - len(alive):3} found  {len(alive):3} survive, {len(equal)} of them equal")
        for mutant in alive:
            if mutant.what not in kept:
                problems += 1
                print(f"    no reason, line {mutant.line}\n{mutant.what}")
    gone = set(kept) - {m.what for m, f in zip(mutants, found) if not f or f in checks.TOOLS} if not (options.cpu or options.kernels or options.step) else set()
    for key in gone:
        print(f"    listed, but found or not there: {key}")
    total = [sum(column) for column in zip(*rows)] or [0, 0, 0]
    print(f"lesson {lesson.number:2}: {total[0]} mutants, {total[1]} found, {total[2]} of the others equal; {len(wanted) - len(mutants)} did not compile", flush=True)
    return problems + len(gone), *total


def run(options):
    lessons = [Lesson(folder) for folder in options.folders] or all_lessons()
    runs.configure(options.build)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    totals = [check_lesson(lesson, options) for lesson in lessons]
    problems, mutants, found, equal = (sum(column) for column in zip(*totals))
    share = 100 * found / max(1, mutants - equal)
    print(f"{mutants} mutants of {len(lessons)} lessons, {found} found; {share:.1f} % of those that are not equal to the solution, wanted 95 %")
    return 1 if problems or share < 95 else 0


def add_arguments(verbs):
    parser = verbs.add_parser("mutants", help="small errors in the lessons' own solutions: do the tests find them?")
    parser.add_argument("folders", nargs="*", type=pathlib.Path, help="lessons/NN_topic; default: all")
    parser.add_argument("--build", type=pathlib.Path, default=runs.ROOT / "build" / "simt", help="default: build/simt")
    solutions.add_halves(parser)
    parser.add_argument("--step", type=int, default=0, help="only this step")
    parser.add_argument("--tools", action="store_true", help="--races and --bounds look at kernels' survivors")
