#!/usr/bin/env python3
"""What building costs: the CPU-seconds of every target by group, and of what a change builds again.

    tools/build_cost.py --measure [--cmake=-DKV_CUDA=ON] [TARGET...]    from nothing, in build/cost
    tools/build_cost.py [FILE...]                                        the table, from what was measured

--measure builds the targets in their order, without ccache, and prints what each of them added: user and
system time of compilers and linkers, so that what else runs on the machine does not count.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
GROUPS = [("CUDA (.cu)", r"\.cu\.o$"), ("headers compiled once", r"\.gch$"),
          ("linking, archives, lists of tests", r"(?<!\.o)$"),
          ("common and kernels", r"^(common|kernels)/"),
          ("programs and benchmarks", r"/(main|bench(_\w+)?|logits)\.cpp\.o$|^tools/|/ladder/\w*\.dir/lessons"),
          ("tests", r"^tests/|/test/|kv_test_main"), ("pages and viz", r"^viz/|/page(_\w+)?\.cpp\.o$"),
          ("lessons", r"")]
CHANGES = ["lessons/05_refcount_cow/block_manager.cpp", "lessons/05_refcount_cow/block_manager.h",
           "lessons/02_flat_cache/fast.cu", "kernels/matmul.cu", "kernels/attention/plan.h",
           "programs/options.h", "qwen3/engine.h", "common/device.h"]


def seconds_of_targets(build):
    """CPU-seconds of each target that was built."""
    seconds = {}
    for line in (build / "cpu_seconds").read_text().splitlines():
        used, target = line.split("\t")
        seconds[target] = float(used)
    return seconds


def note(file, command):
    """Runs one compiler or linker, and notes its time."""
    child = os.spawnvp(os.P_NOWAIT, command[0], command)
    _, status, usage = os.wait4(child, 0)
    with open(file, "a", encoding="utf-8") as out:
        out.write(f"{usage.ru_utime + usage.ru_stime:.2f}\t{command[command.index('-o') + 1]}\n")
    sys.exit(os.waitstatus_to_exitcode(status))


def measure(build, options, targets):
    shutil.rmtree(build, ignore_errors=True)
    launcher = ";".join([sys.executable, str(pathlib.Path(__file__).resolve()), "--note", str(build / "cpu_seconds")])
    subprocess.run(["cmake", "--preset", "default", "-B", build, *options,
                    *[f"-DCMAKE_{language}_LAUNCHER={launcher}" for language in
                      ("CXX_COMPILER", "CUDA_COMPILER", "CXX_LINKER")]], check=True, cwd=ROOT,
                   stdout=subprocess.DEVNULL)
    before = 0
    for target in targets or ["ladder", "tests_lesson03", "tests", "all"]:
        subprocess.run(["ninja", "-C", build, target], check=True, stdout=subprocess.DEVNULL)
        total = sum(seconds_of_targets(build).values())
        print(f"{target:<44} {total - before:>19.0f} s")
        before = total


def ninja(build, *tool):
    return subprocess.run(["ninja", "-C", build, "-t", *tool], check=True, capture_output=True, text=True).stdout


def included_by(build):
    """From a source file to the objects that have to be compiled when it changes."""
    users = {}
    for block in ninja(build, "deps").split("\n\n"):
        lines = block.strip().splitlines()
        for line in lines[1:]:
            users.setdefault(pathlib.Path(os.path.normpath(build / line.strip())), set()).add(lines[0].split(":")[0])
    return users


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "cost")
    parser.add_argument("--measure", action="store_true", help="build from nothing")
    parser.add_argument("--cmake", action="append", default=[], help="an option for cmake")
    parser.add_argument("names", nargs="*", help="files, or with --measure targets")
    options = parser.parse_args()
    options.build = options.build.resolve()  # compilers run elsewhere
    if options.measure:
        measure(options.build, options.cmake, options.names)
    seconds = seconds_of_targets(options.build)
    groups = {}
    for target in seconds:
        groups.setdefault(next(name for name, pattern in GROUPS if re.search(pattern, target)), []).append(target)
    rows = [("everything", seconds)] + sorted(groups.items(), key=lambda row: -sum(map(seconds.get, row[1])))
    users = included_by(options.build)
    source = next(p.parents[2] for p in users if p.match("common/error.h"))  # where this was built
    files = CHANGES if options.measure or not options.names else options.names
    rows += [(name, [o for o in users.get(source / name, ()) if o in seconds]) for name in files]
    for name, targets in filter(lambda row: row[1], rows):
        print(f"{name:<44} {len(targets):>4} targets {sum(map(seconds.get, targets)):>6.0f} s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--note"]:
        note(sys.argv[2], sys.argv[3:])
    main()
