"""Builds and runs the tests of a step, and says in plain words what one of them found."""
import concurrent.futures
import dataclasses
import difflib
import functools
import html
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import course_arguments
from course_builds import TimeLeft, run_ninja

from .lesson import ROOT

LIMIT_S = float(os.environ.get("KV_EXERCISE_SECONDS", "5"))  # for one test on the CPU; a simulated GPU takes longer
WAITS = 77
NO_GPU = ["This build has no GPU, not even a simulated one: COURSE_PRESET=simt has."]
DO_NOT_FIT = "Your files and the lesson's do not fit together."
SHOWN = 30  # lines of a compiler's words
# Of the C library, and of the leak sanitizer.
HEAP = r"munmap_chunk\(\)|free\(\)|malloc\(\)|realloc\(\)|malloc_consolidate\(\)|corrupted|corruption|LeakSanitizer: (CHECK failed|bad pointer)"
ENDED = "The test was ended by an exception:"
LEAKS = 23  # exit code of a program that has given back too little memory
# What tests/support/scribble.cpp fills memory with, as an int or a pointer-sized number of either sign.
PATTERNS = {str(int.from_bytes(bytes([byte] * size), "little", signed=signed)): f"0x{bytes([byte] * size).hex().upper()}: {why}"
            for byte, why in ((0x5A, "memory is read that was given back."), (0xA5, "memory is read that was never written."))
            for size in (4, 8) for signed in (False, True)}
GATE = threading.BoundedSemaphore(os.cpu_count() or 1)  # programs at once


def relative(text, build):
    """Paths as they are written from the root of the repository."""
    text = re.sub(r"(?<![\w/.])(?:\.\./)+[\w./-]+", lambda m: os.path.normpath(build / m[0]), text)
    return text.replace(f"{ROOT}/", "")


# --- building


class Words:
    """What a compiler says, without the commands. A build of more than a few files says how far it is."""

    def __init__(self, folder):
        self.folder, self.said = folder, []
        self.after_failure, self.tenth = False, -1
        self.time_left = TimeLeft()

    def start(self):
        self.begun = time.monotonic()

    def read(self, line):
        if self.after_failure:  # the command, hundreds of characters long
            self.after_failure = False
        elif line.startswith("FAILED:"):
            self.after_failure = True
        elif status := re.match(r"\[(\d+)/(\d+)\] ", line):
            self.step(int(status[1]), int(status[2]))
        elif not re.match(r"ninja: (?!error)|-- |The following files were |  [+-]\S+$", line):
            self.said.append(relative(line, self.folder))

    def step(self, done, files):
        moves = course_arguments.rewrites(sys.stderr)
        if files <= 8 or not moves and 10 * done // files <= self.tenth:
            return
        self.tenth = 10 * done // files
        left = self.time_left.words(time.monotonic() - self.begun, done, files, ", ", " left")
        words = f"building what the tests need, {done} of {files} files{left}"
        (course_arguments.move if moves else course_arguments.say)(words)

    def end(self):
        if self.tenth >= 0 and course_arguments.rewrites(sys.stderr):
            course_arguments.move("")


def home(folder, name):
    """The build folder of a program. Where ./course run has built the lessons, what needs no GPU is soon linked: no kernel is compiled for it."""
    course = folder.parent / "default"
    without_gpu = "_gpu_" not in name and "solutions" not in name
    return course if folder.name == "simt" and without_gpu and (course / "bin" / "ladder").exists() else folder


def program(folder, name):
    return home(folder, name) / "bin" / name


def configure(folder):
    """Of the preset of its name, unless it is there."""
    if not (folder / "build.ninja").exists():
        command = ["cmake", "--no-warn-unused-cli", "--preset", folder.name, "-B", folder]
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)


def build(folder, targets):
    """(whether it was built, what the compiler said without the commands)."""
    ok, said = True, []
    for place in dict.fromkeys(home(folder, target) for target in targets):
        configure(place)
        words = Words(place)
        ok = run_ninja(place, [target for target in targets if home(folder, target) == place], words) and ok
        said += words.said
    if not ok and any("multiple definition of" in line or "undefined reference to" in line for line in said):
        said = linker_words(said)
    if any("unknown target" in line and "_gpu_" in line for line in said):
        return False, NO_GPU
    cut = len(said) - SHOWN
    return ok, said[:SHOWN] + ([f"... and {cut} more lines"] if cut > 0 else [])


def verdict(words):
    """The line under the words of a build that failed: only a compiler's error is the learner's."""
    text = "\n".join(words)
    if re.search(r"internal compiler error|Killed signal|Segmentation fault|[Oo]ut of memory|Cannot allocate memory|No space left", text):
        return "The compiler itself broke off, for lack of memory perhaps: that is no mistake of yours. Once more, with less at a time: COURSE_JOBS=1."
    if words[:1] == [DO_NOT_FIT]:
        return "It compiles, but it cannot be linked yet."
    if not re.search(r"\d[:)]+ (fatal |catastrophic )?error", text):
        return "The build failed, and no compiler names a mistake of yours. Run it again; if that does not help, remove the build folder."
    return "It does not compile yet: the first error is the one to look at."


def linker_words(said):
    """A file that lacks a function is linked together with the lesson's."""
    found = re.findall(r"(multiple definition of|undefined reference to) [`']([^']+)'", "\n".join(said))
    twice, nowhere = ([name for what, name in dict.fromkeys(found) if what.startswith(word)] for word in ("multiple", "undefined"))
    lines = [DO_NOT_FIT]
    if twice:
        lines += ["A function that the file had is gone, or has another name or other parameters.", "Defined twice:"]
        lines += [f"  {name}" for name in twice]
    return lines + (["Declared, but defined nowhere:", *(f"  {name}" for name in nowhere)] if nowhere else [])


# --- running


@dataclasses.dataclass
class Result:
    case: str
    state: str  # passes, fails, waits
    report: list  # lines for a person
    crashed: bool = False  # it was ended, by a signal or as it took too long: sanitizers may say more
    endless: bool = False


def is_simulated(folder):
    return "KV_CUDA:STRING=SIMT" in (folder / "CMakeCache.txt").read_text(encoding="utf-8")


def seconds_used(pid):
    """Processor time of a running program."""
    try:
        times = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return None


def wants_to_run(pid):
    """Whether one of its threads has something to do, although the machine may not let it."""
    try:
        stats = [path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:
        return False
    return any(stat.rsplit(")", 1)[1].split()[0] in "RD" for stat in stats)


def execute(command, environment, limit, at_limit=signal.SIGKILL):
    """(exit code, None if it did not end, what it said, whether it had something to do at the end).

    A program that works gets up to four times the limit while it has not had that much processor time: a busy machine is no endless loop."""
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
                          env={**os.environ, **environment}) as process:
        busy = True
        for more in (limit, limit, 2 * limit):
            try:
                said, _ = process.communicate(timeout=more)
                return process.returncode, said, True
            except subprocess.TimeoutExpired:
                used = seconds_used(process.pid)
                busy = used is None or used > limit / 20 or wants_to_run(process.pid)
                if used is None or not busy or used > 0.8 * limit:
                    break
        process.send_signal(at_limit)
        try:
            said, _ = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
        return None, said, busy


def only(case):
    """doctest's option for one case."""
    return "--test-case=" + re.sub(r"([,\\])", r"\\\1", case)


def run_case(binary, case, environment=None, limit=LIMIT_S):
    """Result of one test case, in a process of its own."""
    build = binary.resolve().parents[1]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.xml"
        command = [binary, only(case), "--reporters=xml", f"--out={out}", "--no-skipped-summary=true"]
        with GATE:
            code, said, busy = execute(command, environment or {}, limit)
        if "LeakSanitizer has encountered a fatal error" in said:  # in a debugger, or not allowed here: without it
            os.environ["LSAN_OPTIONS"] = "detect_leaks=0"
            return run_case(binary, case, environment, limit)
        xml = out.read_text(encoding="utf-8", errors="replace") if out.exists() else ""
    if waits := re.search(r"^to write: (.*) \((.*)\)$", said, re.M):
        return Result(case, "waits", [f"{waits[1]}, {relative(waits[2], build)}"])
    if code == WAITS and "SKIP:" in said:  # a GPU with too little memory for a test past 2^31
        return Result(case, "passes", [])
    if code == 0:
        there = "<TestCase " in xml
        return Result(case, "passes" if there else "fails", [] if there else ["There is no test of this name."])
    lines = relative("\n".join(failure(xml)), build).splitlines()
    if code == LEAKS and "DEADLYSIGNAL" in said:  # the leak sanitizer has taken the signal
        code, said = -11, ""
    damaged = code in (None, -6, LEAKS) and re.search(HEAP, said)  # None: a report from such a heap may wait forever
    if damaged:
        lines += ["A memory access went wrong, and the heap is damaged: something was written outside of its array, or given back two times."]
    elif code is None:
        lines += [f"It did not end within {limit:g} s: " + ("a loop that never ends, or one far too long." if busy else
                  "it waits for something that does not come, and does nothing.")]
    elif code == LEAKS and "LeakSanitizer" in said and not lines:
        lines, said = leak(said, build), ""
    elif code in (-4, -5):  # the compiler's trap (kv_lesson.cmake)
        lines += ["A sum, a difference or a product does not fit in its type."]
    elif code < 0 and code != -6:  # 6: abort, which comes with words
        lines += ["A memory access went wrong, so the program was ended: an index out of range, or a null pointer?"] if code in (
            -11, -7) else [f"The program was ended by signal {-code}."]
    if not re.match(r"\S+:\d+$", lines[0] if lines else ""):  # no check has failed before
        lines = relative(place_of(binary, only(case)), build).splitlines() + lines
    lines += last_check(binary, case, environment, build) if ENDED in lines else []
    words = relative(said.strip(), build).splitlines()
    lines += ["It said:", *(f"  {line}" for line in words[:12])] if words else []
    found = [number for number in re.findall(r"(?<![\w.])-?\d{9,}(?!\w)", "\n".join(lines)) if number in PATTERNS]
    lines += [f"{found[0]} is {PATTERNS[found[0]]}"] if found else []
    return Result(case, "fails", lines, bool(damaged or found) or code is None or code < 0, code is None)


def leak(said, build):
    """What was allocated and never given back, from the leak sanitizer's words."""
    report = re.search(r"(?:Direct|Indirect) leak of (\d+) byte.*?(?=\n\n|\Z)", said, re.S)
    if not report:
        return [said]
    frames = re.findall(r"#\d+ \S+ in (.+) (\S+):(\d+)$", relative(report[0], build), re.M)
    own = [frame for frame in frames if not frame[1].startswith("/")]
    place = next((frame for frame in own if "/exercise/" in frame[1]), own[0] if own else ("", "an unknown place", "?"))
    return [f"A leak: {report[1]} bytes are allocated and never given back.", f"  {place[1]}:{place[2]}, in {place[0]}"]


def last_check(binary, case, environment, build):
    """Where a test was before an exception ended it, which doctest does not say."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.xml"
        execute([binary, only(case), "--reporters=xml", f"--out={out}", "--success=true"], environment or {}, 4 * LIMIT_S)
        xml = out.read_bytes()[-1 << 16 :].decode(errors="replace") if out.exists() else ""  # a random test has many checks
    passed = re.findall(r'<Expression success="true"[^>]* filename="([^"]*)" line="(\d+)"', xml)
    return [f"The last check before it is in line {passed[-1][1]} of {relative(html.unescape(passed[-1][0]), build)}."] if passed else []


def place_of(binary, chosen):
    """FILE:LINE of a test case; it begins there."""
    listed = subprocess.run([binary, chosen, "--list-test-cases", "--reporters=xml"], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, errors="replace").stdout
    found = re.search(r'<TestCase [^>]*filename="([^"]*)" line="(\d+)"', listed)
    return f"{html.unescape(found[1])}:{found[2]}" if found else ""


def run_step(folder, step, target, what="exercise", environment=None):
    """The results of a step's tests, in order. Once one has not ended, no other is begun: each would take as long."""
    jobs = [(program(folder, f"{target}_{what}"), case, {}, LIMIT_S) for case in step.tests]
    jobs += [(program(folder, f"{target}_gpu_{what}"), case, {"SIMT_SEED": "0"}, 4 * LIMIT_S) for case in step.gpu_tests]
    endless = threading.Event()

    def one(job):
        result = None if endless.is_set() else run_case(job[0], job[1], {**(environment or {}), **job[2]}, job[3])
        if result and result.endless:
            endless.set()
        return result

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = [result for result in pool.map(one, jobs) if result]
    if step.gpu_tests and all(result.state == "passes" for result in results) and is_simulated(folder):
        for binary, case, _, limit in jobs[len(step.tests):]:
            again = run_case(binary, case, {**(environment or {}), "SIMT_SEED": "7"}, limit)
            if again.state != "passes":
                again.report += ["In order the threads give the right result, in another order (SIMT_SEED=7) they do not:",
                                 "something is not waited for. --races names both lines."]
                results.append(again)
                break
    return results


def state_of(results):
    states = [result.state for result in results]
    return next((state for state in ("fails", "waits") if state in states), "passes")


def targets_of(step, target, what="exercise"):
    return [f"{target}_{what}"] * bool(step.tests) + [f"{target}_gpu_{what}"] * bool(step.gpu_tests)


# --- what a test found


def parts_of(text, separator):
    """Splits at separators that stand outside brackets and strings."""
    parts, depth, quoted, start, i = [], 0, False, 0, 0
    while i < len(text):
        c = text[i]
        quoted ^= c == '"' and text[i - 1 : i] != "\\"
        if not quoted:
            depth += (c in "([{") - (c in ")]}")
            if depth == 0 and text.startswith(separator, i):
                parts.append(text[start:i])
                i += len(separator)
                start = i
                continue
        i += 1
    return [*parts, text[start:]]


def list_of(value):
    inner = value.strip()
    return [part.strip() for part in parts_of(inner[1:-1], ",")] if re.fullmatch(r"\{.+\}", inner, re.S) else None


def found_and_expected(operator, left, right):
    """Lines with both values; lists as a table around the first place where they differ."""
    found, expected = list_of(left), list_of(right)
    if operator != "==" or not found or not expected or max(len(found), len(expected)) < 2:
        return [f"found      {left}", f"expected   {right if operator == '==' else f'{operator} {right}'}"]
    length = max(len(found), len(expected))
    differs = next((i for i in range(length) if found[i : i + 1] != expected[i : i + 1]), None)
    if differs is None:  # readable.h has left out the end
        return [f"found      another list than expected; the first {length - 1} elements are equal"]
    width = max(map(len, (*found, *expected)))
    columns = max(4, 70 // (width + 2))
    begin = 0 if length <= columns else max(0, differs - columns // 2)
    shown = range(begin, min(length, begin + columns))
    row = lambda name, cell: (f"{name:<11}" + "  ".join(f"{cell(i):>{width}}" for i in shown)).rstrip()
    at = lambda values: lambda i: values[i] if i < len(values) else "-"
    lines = [row("index", str)] if width >= len(str(length)) else []
    lines += [row("found", at(found)), row("expected", at(expected)), row("", lambda i: "^" if i == differs else "")]
    return lines + ([f"{len(found)} elements found, {len(expected)} expected"] if len(found) != len(expected) else []) + (
        [f"elements {begin} to {shown[-1]} of {length} are shown"] if length > len(shown) else [])


def inside(xml, tag):
    found = re.search(rf"<{tag}[^>]*>\s*(.*?)\s*</{tag}>", xml, re.S)
    return html.unescape(found[1]) if found else None


def one_check(kind, xml):
    """Expected and found, of one <Expression>."""
    code, value, thrown = (inside(xml, tag) for tag in ("Original", "Expanded", "Exception"))
    lines = [f"{kind}( {code} )"]
    if value and "{?}" in value:  # a type that the test has no words for
        return lines + ["  found      something else; its value cannot be printed"]
    thrown = thrown.strip('"') if thrown is not None else None
    if "THROWS" in kind:
        wanted = inside(xml, "ExpectedException") or "an exception"
        text = inside(xml, "ExpectedExceptionString")
        wanted += f', its text with "{text}"' if text else ""
        return lines + [f"  found      {'nothing was thrown' if thrown is None else f'an exception: {thrown}'}", f"  expected   {wanted}"]
    if thrown is not None:
        return lines + ["  it threw an exception:", *(f"    {line}" for line in thrown.splitlines())]
    if sought := re.fullmatch(r"(.+)\.find\((.+)\) (!=|==) [\w:]*npos", code, re.S):  # and not the number that npos is
        return lines + [f"  {sought[2]} is {'not ' if sought[3] == '!=' else ''}in {sought[1]}"]
    value = re.sub(r" (==|!=)$", r' \1 ""', re.sub(r"^(==|!=) ", r'"" \1 ', value or ""))  # a string without letters
    for operator in ("==", "!=", "<=", ">=", "<", ">"):
        written, values = parts_of(code, f" {operator} "), parts_of(value or "", f" {operator} ")
        if len(written) == 2 and len(values) == 2:
            return lines + [f"  {line}" for line in found_and_expected(operator, *values)]
    return lines + [f"  found      {value}", f"  expected   {'false' if 'FALSE' in kind else 'true'}"]


def failure(xml):
    """The first thing that went wrong in a test case, from doctest's XML."""
    pattern = (r"<(Expression|Message)( [^>]*)>(.*?)</\1>|"
               r"<Exception crash=\"(\w+)\">\s*(.*?)\s*</Exception>(?=\s*<(?:Overall|SubCase|/SubCase|/TestCase))")
    lines, more = [], 0
    for match in re.finditer(pattern, xml, re.S):
        if lines:
            more += match[1] == "Expression"
            continue
        attributes = dict(re.findall(r'(\w+)="([^"]*)"', match[2] or ""))
        if match[1]:
            lines = [f"{attributes.get('filename')}:{attributes.get('line')}"]
            text = inside(match[3], "Text") if match[1] == "Message" else None
            lines += [text] if text is not None else one_check(attributes.get("type", "CHECK"), match[3])
            infos = [html.unescape(info) for info in re.findall(r"<Info>\s*(.*?)\s*</Info>", match[3], re.S)]
            lines += [f"  with       {info.replace(' := ', ' = ')}" for info in infos]
        elif match[4] == "false":
            case = re.search(r'<TestCase [^>]*filename="([^"]*)" line="(\d+)"', xml)
            lines = [f"{case[1]}:{case[2]}", ENDED, *(f"  {line}" for line in html.unescape(match[5]).strip('"').splitlines())]
    return lines + ([f"and {more} more check{'s' * (more > 1)} of this test fail{'s' * (more == 1)}."] if more else [])


def shown_test(report):
    """The lines of the test that lead to the check that failed."""
    at = re.match(r"(\S+):(\d+)$", report[0]) if report else None
    path = ROOT / at[1] if at else None
    if not at or not path.is_file():
        return []
    source, end = path.read_text(encoding="utf-8").splitlines(), int(at[2])
    begin = next((n for n in range(end, max(0, end - 12), -1) if source[n - 1].startswith("TEST_CASE")), max(1, end - 5))
    last = end
    if begin == end:  # a crash, or no end: the line is unknown
        last = min(len(source), end + 11)
        last = next((n for n in range(end, last) if source[n - 1].startswith(("}", "TEST_CASE")) and source[n - 1].endswith("}")), last)
    return ["", *(f"    {'>' if n == end else ' '} {n:>4} | {source[n - 1]}" for n in range(begin, last + 1))]


# --- on a terminal


coloured = functools.partial(course_arguments.coloured, stream=sys.stdout)


def width():
    return min(96, shutil.get_terminal_size((96, 24)).columns)


def compare(what, mine, theirs, context=1):
    """What a learner wrote, and the lesson's."""
    print(coloured(f"{what}: - yours, + the lesson's", "1"))
    if mine == theirs:
        print("  the same, letter for letter")
    for line in list(difflib.unified_diff(mine.splitlines(), theirs.splitlines(), lineterm="", n=context))[3:]:
        print(coloured(line, {"-": "31", "+": "32"}.get(line[:1], "0")))
