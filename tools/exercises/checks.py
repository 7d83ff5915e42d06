"""What is looked at besides a step's tests: sanitizers after a crash, the simulated GPU's tools, a rule, the whole."""
import concurrent.futures
import os
import re
import shlex
import shutil
import signal
import subprocess

import kernel_runs
from course_builds import SIMULATED

from . import runs, substitution
from .lesson import ROOT

TOOLS = {tool: SIMULATED[tool] for tool in ("races", "bounds")}
SANITIZERS = {"ASAN_OPTIONS": "color=never:detect_leaks=0:detect_container_overflow=0:exitcode=67"
              + "".join(f":handle_{name}=2" for name in ("segv", "abort", "sigfpe", "sigbus")),  # and not doctest's handlers
              "UBSAN_OPTIONS": "color=never:print_stacktrace=1"}
KINDS = {"heap-buffer-overflow": "an index out of range", "heap-use-after-free": "memory that was given back is used",
         "attempting double-free": "memory is given back two times", "SEGV": "an address where no memory is",
         "stack-buffer-overflow": "an index out of range", "global-buffer-overflow": "an index out of range",
         "stack-overflow": "the stack is full: functions that call each other without end?"}
WHOLE = [["--max-tokens", "12"], ["--max-tokens", "8", "--kernel", "plain", "--window", "16", "--full-every", "6"]]


# --- after a crash


def second_look(lesson, step, result, folder, passing=(), on_cpu=True):
    """Runs a test that has crashed again, under sanitizers. Puts what they say in front of the result's report.

    `passing`: the step's tests that pass. No step: the test is one of the whole, of a program on the CPU or not."""
    if not result.crashed:
        return
    if on_cpu if step is None else result.case in step.tests:
        words = by_sanitizers(lesson, result, folder)
    else:
        # What all threads do again and again takes too long where there is much of it: --races names it in a small test.
        looks = [("races", [case for case in step.tool_tests if case in passing])] if result.endless and step else []
        looks += [("bounds", [result.case])] if not looks or result.case in step.tool_tests else []
        words = []
        for tool, cases in looks:
            if not words and cases and is_ready(lesson, folder, tool):
                words = [line for one in run_tool(lesson, cases, folder, tool) or [] for finding in one.findings for line in finding]
                words = words if any(re.search(r"a race |overrun|undefined behaviour", line) for line in words) else []
                if words and tool == "races":
                    words = [*(line for line in result.report if "did not end" in line), "In another test of this step --races finds", *words]
    a_check_failed = len(result.report) > 1 and re.match(r"CHECK|REQUIRE", result.report[1])
    if words and not (a_check_failed and "exercise/" not in "".join(words)):
        begin = [line for line in result.report[:1] if re.match(r"\S+:\d+$", line)]
        before = [*result.report, "Sanitizers, which end a test at the first such mistake, say:"] if a_check_failed else begin
        result.report = [*before, *words, *blame(lesson, step, words)]


def by_sanitizers(lesson, result, folder):
    target = f"{lesson.target}_exercise_asan"
    if not runs.build(folder, [target])[0]:
        return []
    binary = runs.program(folder, target)
    command = [str(binary), runs.only(result.case), "--no-colors=true", "--no-intro=true", "--no-version=true"]
    # After that time it is asked where it is; a crash has ended before, but may take long to be described.
    _, said, _ = runs.execute(command, SANITIZERS, runs.LIMIT_S * (0.5 if result.endless else 24), signal.SIGABRT)
    return words_of(said, binary, next((line for line in result.report if "did not end" in line), ""))


def words_of(said, binary, endless=""):
    """What the sanitizers of a CPU step say, in a few lines. `endless`: what is said if it did not end here either."""
    ubsan = re.search(r"^(\S+?):(\d+):\d+: runtime error: (.*)$", said, re.M)
    asan = re.search(r"ERROR: AddressSanitizer: (attempting double-free|\S+)", said)
    if not ubsan and not asan:
        return []
    frames = kernel_runs.frames_of(re.split(r"\n\s*\n", said[(ubsan or asan).start():])[0], binary)
    frames = [frame for frame in frames if not frame[1].is_absolute() and frame[1].parts[0] not in ("build", "tests", "simt")
              and (ROOT / frame[1]).is_file()]
    mine = [frame for frame in frames if "exercise" in frame[1].parts]
    access = re.search(r"^(READ|WRITE) of size (\d+)", said, re.M)
    if endless and asan and asan[1] == "ABRT" and "Assertion" not in said:
        lines = [endless, "After that time it was at" if mine else "After that time it was in none of your functions."]
    elif ubsan:
        lines = [f"Undefined behaviour: {ubsan[3]}"]
    elif asan[1] == "ABRT":
        check = re.search(r"Assertion '(.+?)' failed", said)
        member = re.search(r": [^\n]*?::(\w+\[?\]?)\([^\n]*Assertion", said)
        why = f"{member[1] if member else 'a function'} of the standard library needs {check[1]}" if check else "it was ended by abort()"
        words = [line for line in said[: asan.start()].splitlines() if line.strip() and not line.startswith(("=", "AddressSan", "[doctest"))]
        lines = [f"A check failed: {why}, which does not hold here."] if check else [f"A crash: {why}.", *words[:2]]
    else:
        lines = [f"A memory error: {KINDS.get(asan[1], asan[1])}."]
        if access and "located" in said:
            lines += [f"  It {access[1].lower()}s {access[2]} bytes {kernel_runs.distance(said)}"]
    for frame in dict.fromkeys(frames[:1] + mine[:1]):
        lines += [f"    {frame[1]}:{frame[2]}, in {short(frame[0])}", kernel_runs.quoted(*frame[1:])]
    return [line for line in lines if line.strip()]


def short(function):
    return re.sub(r"<[^<>]*>|\(.*", "", re.sub(r"^.* (?=[\w:]+\()", "", function)) + "()"


def blame(lesson, step, words):
    """If the line is in another step's function, that step is named. No step: any is."""
    for file, line in re.findall(r"exercise/([\w.]+):(\d+)", "\n".join(words)):
        other, function = lesson.at(file, int(line))
        if other and not step:
            return [f"That is in {function.name}(), of step {other.number}."]
        if other and other.number != step.number:
            return [f"That is in {function.name}(), of step {other.number}: look there, and not at step {step.number}."]
        if other:
            return []
    return []


# --- the simulated GPU's tools


def builds(folder):
    return {tool: folder.parent / preset for tool, preset in TOOLS.items()}


def target_of(lesson):
    return f"{lesson.target}_gpu_exercise"


def background(lesson, folder):
    """Builds what --races and --bounds need while the learner writes. One at a time, and last in the queue."""
    if not any(step.gpu_tests for step in lesson.steps) or not runs.is_simulated(folder) or is_building(folder):
        return
    missing = [folder] * (not (folder / "bin" / target_of(lesson)).exists())
    missing += [build for tool, build in builds(folder).items() if not is_ready(lesson, folder, tool)]
    if missing:
        alone = lambda b: f"flock {shlex.quote(str(b))}/course.lock " if shutil.which("flock") else ""
        command = "\n".join(f"[ -e {shlex.quote(str(b))}/build.ninja ] || cmake --preset {b.name} -B {shlex.quote(str(b))}\n"
                            f"{alone(b)}ninja -C {shlex.quote(str(b))} -k 0 -j {max(1, (os.cpu_count() or 2) // 2)} {target_of(lesson)}" for b in missing)
        with open(folder.parent / "exercise_tools.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen(["nice", "-n", "19", "sh", "-c", command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=log, start_new_session=True)
        (folder.parent / "exercise_tools.pid").write_text(str(process.pid), encoding="utf-8")
        print("While you write, what the kernels, --races and --bounds need is built in the background.")


def background_pid(folder):
    return int((folder.parent / "exercise_tools.pid").read_text(encoding="utf-8"))


def end_background(folder):
    """Ends the build that background() has begun; the next one goes on from there."""
    if is_building(folder):
        os.killpg(background_pid(folder), signal.SIGTERM)


def is_building(folder):
    try:
        pid = background_pid(folder)
        return "exercise_tools" in os.readlink(f"/proc/{pid}/fd/1") and os.waitpid(pid, os.WNOHANG)[0] == 0
    except ChildProcessError:
        return True  # an earlier command's
    except (OSError, ValueError):
        return False


def is_ready(lesson, folder, tool):
    """Whether little is left to build for a tool: a learner's file and its program."""
    build = builds(folder)[tool]
    if is_building(folder) or not (build / "bin" / target_of(lesson)).exists():
        return False
    said = subprocess.run(["ninja", "-C", str(build), "-n", target_of(lesson)], capture_output=True, text=True).stdout
    return len(re.findall(r"^\[\d+/\d+\] (?!Re-)", said, re.M)) <= 12


def run_tool(lesson, cases, folder, tool):
    """Results of cases in a tool's build, which is made first; None if it cannot be."""
    build = builds(folder)[tool]
    ok, words = runs.build(build, [target_of(lesson)])
    if not ok:
        print(*words, sep="\n")
        return None
    return kernel_runs.run(build / "bin" / target_of(lesson), tool, cases)


def is_late(result):
    """Whether a tool only took too long. A kernel that has passed its tests has no endless loop: the machine is slow, or busy."""
    return [finding[0].startswith("not done in ") for finding in result.findings if finding] == [True]


def note(lesson, tool, results):
    """A step in which the tool has found nothing need not be looked at again as long as it stays as it is."""
    states = {result.case: "passes" if is_late(result) else result.state for result in results}
    for step in lesson.steps:
        if step.gpu_tests and all(states.get(case) == "passes" for case in step.tool_tests):
            lesson.kept[tool][str(step.number)] = lesson.digest(step)
    lesson.keep()


def look(lesson, step, folder, must):
    """(state, lines) of a kernel that passes its tests: passes, fails, or a mark until the tools' builds are there."""
    marks = []
    for tool in lesson.tools_left(step):
        if not must and not is_ready(lesson, folder, tool):
            return "mark", [f"Step {step.number} counts when --races and --bounds have found nothing in it, too. Their builds are not there yet;",
                            f"to make them and look now: ./course exercise {lesson.number} --{tool}"]
        results = run_tool(lesson, step.tool_tests, folder, tool)
        bad = next((result for result in results or [] if result.state != "passes" and not is_late(result)), None)
        if results is None or bad:
            lines = [line for finding in bad.findings for line in finding] if bad else [f"What --{tool} needs does not build."]
            finds = re.search(r"^(a race|an overrun|undefined behaviour)", "\n".join(lines), re.M)
            unset = f"where a variable that nothing has written {'is NaN, or -1' if tool == 'bounds' else 'has other bits'}. Does yours begin with what it needs?"
            what = f'--{tool} finds something in "{bad.case}":' if finds else f'"{bad.case}" fails in the build of --{tool}, {unset}' if bad else ""
            return "fails", [what, "", *lines] if bad else lines
        note(lesson, tool, results)
        marks += [mark[0] for result in results if (mark := re.search(r"^\(!\) .*", result.output, re.M))]
    return "passes", marks[:1] if 2 * len(marks) > len(step.tool_tests) else []  # a test may have a single row


# --- a rule that no test can see; the simulated GPU sees the others


def breaks_launch_rule(lesson, step, changed=()):
    """launch.cuh's first rule, in a kernel whose own solution follows it: lines, or nothing. `changed`: files that replace the learner's."""
    call = "let_successors_start();"
    for function in step.functions:
        source = dict(changed).get(function.file) or lesson.written(function.file)
        if call in function.text(lesson.own(function.file)) and call not in re.sub(r"//[^\n]*|/\*.*?\*/", "", source, flags=re.S):
            return [f"{lesson.place(function.file)}:{function.line(source)}", f"{function.name} never calls kv::{call} The next",
                    "kernel then starts only when this one has ended (kernels/launch.cuh, rule 1)."]
    return []


# --- the whole


def sanitized(lesson, folder, tools=("asan", "tsan")):
    """All CPU tests once more under sanitizers; under the one for threads those of steps whose work several threads do. Lines, or nothing."""
    by_threads = lambda step: re.search("parallel_for|each_query", "".join(lesson.written(f.file) for f in step.functions)) or "thread" in "".join(step.text)
    shared = [case for step in lesson.steps if by_threads(step) for case in step.tests]
    for tool in tools:
        binary = runs.program(folder, f"{lesson.target}_exercise_{tool}")
        if tool == "tsan" and not shared or not runs.build(folder, [binary.name])[0]:
            continue
        cases = shared if tool == "tsan" else kernel_runs.cases_of(binary, "*")
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for case, (_, said) in zip(cases, pool.map(lambda case: kernel_runs.run_case(binary, case, SANITIZERS), cases)):
                if words := words_of(said, binary) if tool == "asan" else race_of(said, binary):
                    pool.shutdown(wait=False, cancel_futures=True)
                    return [f"{named(lesson, case)}, under sanitizers:", *(f"  {line}" for line in words), *blame(lesson, None, words)]
    return []


def race_of(said, binary):
    """The learner's lines between which the sanitizer for threads sees a race, in one test."""
    race = re.search(r"ThreadSanitizer: data race.*?(?=^={18}$|\Z)", said, re.M | re.S)
    mine = [frame for frame in kernel_runs.frames_of(race[0], binary) if "exercise" in frame[1].parts] if race else []
    lines = [line for frame in dict.fromkeys(mine) for line in (f"    {frame[1]}:{frame[2]}", kernel_runs.quoted(*frame[1:]))]
    return lines and ["A race: several threads of kv::parallel_for use one place, and one of them writes it.", *lines]


def named(lesson, case, kind="tests"):
    steps = " and ".join(str(step.number) for step in lesson.steps if case in getattr(step, kind))
    return f'"{case}"{f", a test of step {steps}" if steps else ""}'


def whole(lesson, folder):
    """The lesson's own tests, all of them, and a short ladder on the learner's files. Lines about what differs, and in which step, or nothing."""
    steps_with = lambda kind: any(getattr(step, kind) for step in lesson.steps)
    target, other = f"{lesson.target}_exercise", f"{lesson.target}_substituted"
    ok, words = runs.build(folder, [target, f"{target}_whole"] + [target_of(lesson)] * (steps_with("gpu_tests") and runs.is_simulated(folder)))
    if not ok:
        return words
    binary = runs.program(folder, target)
    jobs = [(binary, case) for case in kernel_runs.cases_of(binary, "*")]
    if steps_with("gpu_tests") and runs.is_simulated(folder):
        jobs += [(folder / "bin" / target_of(lesson), case) for case in kernel_runs.cases_of(folder / "bin" / target_of(lesson))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda job: runs.run_case(*job, limit=24 * runs.LIMIT_S), jobs))
    for (program, _), result in zip(jobs, results):
        if result.state != "passes":
            second_look(lesson, None, result, folder, (), program == binary)
            substituted = program.name.replace("_exercise", "_substituted")
            passes = lambda own: runs.run_case(runs.program(folder, substituted), result.case, own, 24 * runs.LIMIT_S).state == "passes"
            return [named(lesson, result.case, "tests" if program == binary else "gpu_tests"), *(f"  {line}" for line in result.report),
                    *(sanitized(lesson, folder, ["tsan"]) or substitution.cause(lesson, folder, [substituted], passes))]
    if lines := sanitized(lesson, folder):
        return lines
    for options in WHOLE:
        ladder = lambda program, own: runs.execute([runs.program(folder, f"{program}_whole"), "--device", "cpu", "--without-times", *options], own, 40 * runs.LIMIT_S)
        code, said, _ = ladder(target, {})
        if code != 0:
            shown = " ".join(["./course run --mine --lessons", f"1,{max(2, lesson.number)}", *options])
            said = [line for line in said.strip().splitlines() if line.strip()]
            return [f"The ladder on your files, as in {shown}:", *(f"  {line}" for line in said[-6:]),
                    "  The lesson's own files give equal bits here, so the cause is in yours.",
                    *substitution.cause(lesson, folder, [f"{other}_whole"], lambda own: ladder(other, own)[0] == 0)]
    return []
