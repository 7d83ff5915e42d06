#!/usr/bin/env python3
"""Runs a lesson's kernels on the simulated GPU, on small inputs, and says what a tool found, in a few lines.

Without an option: results, and which threads miss a barrier or a shuffle. ./course kernel gpu runs those of docs/gpu.md.

The kernels' tests (test suite "kernel") run, each in a process of its own, so that one that crashes or does not end
takes no other with it.

Exit code: 0 if nothing was found, 1 if something was, 2 if it could not run."""
import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import tempfile

import course_arguments
import course_builds
import kernel_traffic
import warp_trace
from course_builds import ROOT, shown

LOOKS_FOR = {"": "", "races": ", looking for races", "bounds": ", looking for overruns",
             "traffic": ", counting loads and stores"}
TOOLS = {"races": "two threads at one place with nothing that orders them: both lines, CTAs and threads",
         "bounds": "a thread beyond its array: which array, how far, which thread",
         "traffic": "what each line's loads and stores cost"}
DIVERGENCE = r"not every thread comes[^,\n]*|deadlock|the mask [^,\n]*|lanes of a warp meet in different calls"
WAITS = 77  # a test that came to a KV_TODO
LIMIT_S = 300  # for a busy machine; a step's tests have found endless loops before
OPTIONS = {"TSAN_OPTIONS": "color=never:exitcode=66:history_size=4", "UBSAN_OPTIONS": "color=never:print_stacktrace=1",
           "ASAN_OPTIONS": "color=never:detect_leaks=0:exitcode=67"}


@dataclasses.dataclass
class Result:
    case: str
    state: str  # passes, fails, waits
    output: str  # all that it printed
    findings: list  # what the tool found, a few lines each


def cases_of(binary, suite="kernel", pattern="*"):
    listed = subprocess.run([binary, "--list-test-cases", "--no-skip", f"--test-suite={suite}", f"--test-case={pattern}", "--no-colors=true"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    return [line for line in listed.splitlines() if line and not line.startswith(("[doctest]", "==="))]


def run_case(binary, case, environment=None):
    """One case: exit code and output. Code None: it did not end."""
    chosen = "--test-case=" + re.sub(r"([,\\])", r"\\\1", case)
    command = [str(binary), chosen, "--no-skip", "--no-colors=true", "--no-intro=true", "--no-version=true"]
    def start(words):
        return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=LIMIT_S, env={**os.environ, **OPTIONS, **(environment or {})})
    try:
        done = start(command)
        if "unexpected memory mapping" in done.stdout:  # some kernels place programs where the sanitizer wants to be
            done = start(["setarch", "-R", *command])
    except subprocess.TimeoutExpired as error:
        output = error.stdout or b""
        return None, output.decode(errors="replace") if isinstance(output, bytes) else output
    return done.returncode, done.stdout


# --- what the reports say


def in_repository(path, binary):
    """A path of a report, as the reader writes it: the compiler may have seen it from the build folder."""
    path = pathlib.Path(path)
    if not path.is_absolute():
        path = pathlib.Path(binary).resolve().parent.parent / path
    path = pathlib.Path(os.path.normpath(path))
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def quoted(path, number):
    code = kernel_traffic.source_line(ROOT / path, int(number))
    return f"        {code}" if code else ""


FRAME = re.compile(r"^\s+#\d+ (?:0x[0-9a-f]+ in )?(?P<function>.+?) (?P<file>[^\s:]+):(?P<line>\d+)", re.M)


def frames_of(text, binary):
    """(function, path, line) of a stack, from the innermost on."""
    return [(m["function"].removeprefix("void "), in_repository(m["file"], binary), m["line"]) for m in FRAME.finditer(text)]


def of_reader(frames):
    """Without the machine that runs the kernel."""
    found = []
    for frame in frames:
        if frame[1].is_absolute() or frame[1].parts[0] == "simt" and "include" not in frame[1].parts:
            if found:
                break
        else:
            found.append(frame)
    return found


def kernel_in(frames):
    return kernel_traffic.base_name(frames[-1][0]) if frames else "a kernel"


def place(frames):
    """Where it happened, and from where in the kernel if that is another file."""
    if not frames:
        return ["        at an unknown place (built without -g?)"]
    inner, outer = frames[0], frames[-1]
    lines = [f"    {inner[1]}:{inner[2]}", quoted(*inner[1:])]
    if outer[1] != inner[1]:
        lines += [f"      called from {outer[1]}:{outer[2]}", quoted(*outer[1:])]
    return [line for line in lines if line]


def with_lines(report, binary):
    """The sanitizer's own reader of debug information misses some functions of templates."""
    missed = {int(address, 16) for address in re.findall(r"<null> \(%s\+(0x[0-9a-f]+)\)" % re.escape(pathlib.Path(binary).name), report)}
    frames = kernel_traffic.frames_at(str(binary), missed) if missed else {}
    def lines(m):
        return "\n".join(f"    #0 {function} {file}:{line}" for function, file, line in frames.get(int(m[1], 16), ())) or m[0]
    return re.sub(r"^    #\d+ [^\n]*<null> \(\S+\+(0x[0-9a-f]+)\)$", lines, report, flags=re.M)


def race_of(report, binary):
    """One report of the thread sanitizer. Returns (what makes it the same as another one, lines)."""
    sides = re.findall(r"^  (Previous )?(?:\[failed[^\n]*\] )?((?:atomic )?(?:read|write)) of size (\d+) at \w+ by (main thread|thread T\d+)"
                       r"[^\n]*\n(.*?)(?=\n\n|\Z)", report, re.M | re.S | re.I)
    names = dict(re.findall(r"Thread (T\d+) '([^']+)'", report))
    if len(sides) < 2:
        return report, ["a race (its report could not be read):", *report.strip().splitlines()]
    is_shared = re.search(r"TLS of |heap block[^\n]*\n.*posix_memalign[^\n]*\n[^\n]*\b(begin|run_cta)\b", report)
    stacks = [of_reader(frames_of(stack, binary)) for *_, stack in sides[:2]]
    kernels = [kernel_in(frames) for frames in stacks]
    threads = [names.get(who.split()[-1], "the host") for *_, who, _ in sides[:2]]
    launches = [re.sub(r".*, ", "", thread) for thread in threads]
    if launches[0] == launches[1]:
        threads = [thread.partition(", launch")[0] for thread in threads]
    verbs = [VERBS[re.search("read|write", access, re.I)[0].lower()] for _, access, *_ in sides[:2]]
    lines = [f"a race in {'shared' if is_shared else 'device'} memory: {' and '.join(dict.fromkeys(kernels))}",
             f"  {threads[0]} {verbs[0][0]} {sides[0][2]} bytes", *place(stacks[0]),
             f"  that {threads[1]} has {verbs[1][1]} before", *place(stacks[1]),
             "  " + what_orders(kernels, threads, launches)]
    return tuple(sorted((frames[0][1:] if frames else () for frames in stacks), key=str)), lines


VERBS = {"read": ("reads", "read"), "write": ("writes", "written")}


def what_orders(kernels, threads, launches):
    if "the host" in threads:
        return "The host and a kernel use one place: the stream is not waited for."
    if kernels[0] != kernels[1] or launches[0] != launches[1]:
        return "The later launch does not wait for the one before: wait_for_predecessors()."
    if threads[0].partition(" thread")[0] == threads[1].partition(" thread")[0]:
        orders = "Nothing orders two threads of a CTA but __syncthreads(), or in a warp __syncwarp()."
    else:
        orders = "Nothing orders two CTAs of a launch but atomics and __threadfence()."
    return f"{orders}\n  If both change one value, as in += or a count: atomicAdd(), or another atomic."


def races(output, binary):
    found = {}
    for report in re.findall(r"WARNING: ThreadSanitizer: data race.*?(?=^={18}$)", output, re.M | re.S):
        key, lines = race_of(with_lines(report, binary), binary)
        found.setdefault(key, [lines, 0])[1] += 1
    return [lines + ([f"  ({count} reports of these two lines)"] if count > 1 else []) for lines, count in found.values()]


def distance(output):
    """How far from which array."""
    m = re.search(r"is located (\d+) bytes (?:to the )?(left|right|inside|before|after) of (\d+)-byte region", output)
    if m:
        far, side, size = int(m[1]), m[2], int(m[3])
        if side == "inside":
            return f"in an array of {size:,} bytes that was freed"
        beyond = "before the beginning" if side in ("left", "before") else "after the end"
        return f"{far:,} bytes {beyond} of an array of {size:,} bytes" if far else f"right {beyond} of an array of {size:,} bytes"
    m = re.search(r"is located (\d+) bytes (?:to the )?(left|right|before|after) of global variable '([^']+)'.*?of size (\d+)", output)
    if m:
        beyond = "before the beginning" if m[2] in ("left", "before") else "after the end"
        return f"{m[1]} bytes {beyond} of {m[3].split('::')[-1]}, {int(m[4]):,} bytes of shared memory"
    return "in memory that belongs to no array"


def overruns(output, binary):
    asan = re.search(r"ERROR: AddressSanitizer: (\S+)", output)
    ubsan = re.search(r"^(\S+?):(\d+):\d+: runtime error: (.*)$", output, re.M)
    if not asan and not ubsan:
        return []
    by = re.search(r"^simulated GPU: (CTA .*), launch", output, re.M)
    thread = by[1] if by else "a thread"
    if not asan:
        path = in_repository(ubsan[1], binary)
        return [[f"undefined behaviour: {ubsan[3]}", f"  {thread}", f"    {path}:{ubsan[2]}", quoted(path, ubsan[2])]]
    stacks = re.split(r"\n\s*\n", output[asan.start():])
    frames = of_reader(frames_of(stacks[0], binary))
    access = re.search(r"^(READ|WRITE) of size (\d+)", output, re.M)
    does = f"{access[1].lower()}s {access[2]} bytes" if access else "reads or writes"
    lines = [f"an overrun: {kernel_in(frames)}", f"  {thread} {does}, {distance(output)}", *place(frames)]
    allocated = re.search(r"^allocated by .*?(?=\n\n|\Z)", output, re.M | re.S)
    if allocated and re.search(r"\b(begin|run_cta)\b.*simt/", allocated[0]):
        lines += ["  the array is the CTA's dynamic shared memory"]
    elif allocated:
        # Who wanted it: the first that is neither the machine nor the device layer, nor a helper of tests.
        helpers = ("simt", "common", "/usr", "..")
        at = next((f for f in frames_of(allocated[0], binary)
                   if f[1].parts[0] not in helpers and f[1].parts[:2] != ("tests", "support") and not f[1].is_absolute()), None)
        if at:
            lines += [f"  the array was allocated in {at[1]}:{at[2]}", quoted(*at[1:])]
    return [lines]


def failures(output, binary):
    """What doctest printed, without its frame; the machine's own words on threads that miss each other."""
    text = re.sub(r"^\[doctest\].*\n?|^=+\n", "", output, flags=re.M).strip()
    path = lambda m: f"{in_repository(m[1], binary)}:{m[2]}"
    text = re.sub(r"(?<![\w/.])((?:\.\./|/)[\w/.+-]+):(\d+)", path, text)
    lines = []
    for line in text.splitlines():
        lines.append(line.rstrip())
        at = re.search(r"waiting in .*, ([\w/.+-]+):(\d+)$", line)
        if at and quoted(at[1], at[2]):
            lines.append(quoted(at[1], at[2]))
    return lines


def judge(tool, code, output, binary):
    """(state, findings) of a case that has run."""
    if code == WAITS:
        return "waits", []
    findings = races(output, binary) if tool == "races" else overruns(output, binary) if tool == "bounds" else []
    if code is None and not findings:
        return "fails", [[f"not done in {LIMIT_S} s: an endless loop, or a thread that spins until another one writes",
                          *failures(output, binary)]]
    if not findings and code != 0:
        findings = [failures(output, binary) + ([f"ended by signal {-code}"] if code < 0 else [])]
    return ("fails" if findings or code != 0 else "passes"), findings


def run(binary, tool="", cases=None, jobs=None):
    """Every case (default: those of the suite "kernel") as a Result."""
    def one(case):
        code, output = run_case(binary, case)
        return Result(case, *(lambda s, f: (s, output, f))(*judge(tool, code, output, binary)))
    with concurrent.futures.ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
        return list(pool.map(one, cases if cases is not None else cases_of(binary)))


def traffic(binary, folders, command, svg, source=False, pattern="*", own=None):
    """Prints what the kernels of `folders` load and store in all cases of the suite "kernel"; beside those of the program `own`."""
    with tempfile.TemporaryDirectory() as folder:
        def traced(program, trace):
            return subprocess.run([program, "--test-suite=kernel", f"--test-case={pattern}", "--no-colors=true", "--no-intro=true"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                                  env={**os.environ, "SIMT_TRACE": str(trace)}, timeout=LIMIT_S)
        trace = pathlib.Path(folder) / "trace"
        done = traced(binary, trace)
        if done.returncode not in (0, WAITS):
            print("\n".join(failures(done.stdout, binary)))
            print("The kernels fail, so what they cost is not counted.")
            return 1
        kernel_traffic.report(trace, folders, svg, source)
        if own and traced(own, trace.with_suffix(".own")).returncode == 0:
            kernel_traffic.compare(trace, trace.with_suffix(".own"))
        page = svg.with_suffix(".json")
        warp_trace.write(trace, page, f"{command} --traffic", folders)
        print(f"Click through it: ./course viz --trace {shown(page)}")
    return 0


def show(results, verbose=False):
    names = {"passes": "passes", "fails": "FAILS", "waits": "waits"}
    for result in results:
        print(f"  {names[result.state]:6}  {result.case}")
        if result.state == "passes":  # what the case itself has printed
            print(end="".join(f"{line}\n" for line in result.output.splitlines() if not line.startswith(("[doctest]", "==="))))
    for result in results:
        if result.state != "fails":
            continue
        print(f"\n{result.case}:")
        for lines in result.findings:
            print("\n" + "\n".join(lines))
        if verbose:
            print("\nThe whole output:\n" + result.output)
    failed = sum(result.state == "fails" for result in results)
    waiting = sum(result.state == "waits" for result in results)
    passed = len(results) - failed - waiting
    print(f"\n{passed} of {len(results)} pass" + (f", {waiting} wait for something to be written" if waiting else ""))
    return 1 if failed else 0


def main():
    parser = course_arguments.Parser(prog="./course kernel N", description=__doc__)
    parser.add_argument("whose", help=argparse.SUPPRESS)  # a lesson's number, or gpu
    which = parser.add_mutually_exclusive_group()
    for tool, finds in TOOLS.items():
        which.add_argument(f"--{tool}", dest="tool", action="store_const", const=tool, default="", help=finds)
    parser.add_argument("--cases", metavar="PATTERN", default="*", help="only these cases; * stands for anything")
    parser.add_argument("--wrong", action="store_true", help="of ./course kernel gpu: the kernels with a mistake")
    parser.add_argument("--verbose", action="store_true", help="the tools' whole reports, too")
    parser.add_argument("--source", action="store_true", help="with --traffic: the kernels' code with the numbers beside it")
    options = parser.parse_args()
    if options.whose == "gpu":
        folder, program, whose = ROOT / "tests/first_kernels", "first_kernels_gpu_test", "The kernels of docs/gpu.md"
    else:
        folder, program = next(ROOT.glob(f"lessons/{options.whose}_*")), f"lesson{options.whose}_gpu_test"
        whose = f"Lesson {int(options.whose)}'s kernels"
    command = f"./course kernel {options.whose.lstrip('0')}"
    build = course_builds.Build(course_builds.SIMULATED[options.tool])
    course_builds.setup(build)
    build.build(program)
    binary = build.program(program)
    cases = cases_of(binary, "wrong" if options.wrong else "kernel", options.cases)
    if not cases:
        what = f"no case matches '{options.cases}'" if options.cases != "*" else "no such kernels"
        parser.error(f"{command}: {what}")
    print(f"{whose} on the simulated GPU{LOOKS_FOR[options.tool]}\n")
    if options.tool == "traffic":
        svg = build.folder / f"{program.replace('_gpu_test', '').replace('first_kernels', 'gpu')}_traffic.svg"
        return traffic(binary, [folder], command, svg, options.source, options.cases)
    return show(run(binary, options.tool, cases), options.verbose)


if __name__ == "__main__":
    course_arguments.end_with(main, subprocess.SubprocessError)
