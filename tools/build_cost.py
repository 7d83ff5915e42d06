#!/usr/bin/env python3
"""What building costs, in CPU-seconds: all files by group, and those that a change compiles again.

    tools/build_cost.py                          # compiles every file once more, alone; takes minutes
    tools/build_cost.py common/base/device.h     # what a change of this file costs, too

Compiles as build/default would (or --build), without ccache, and leaves that folder as it is: build everything in it
first, because ninja notes then which file includes which.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
GROUPS = [("CUDA", r"\.cu$"), ("common and kernels", r"^(common|kernels)/"),
          ("programs and benchmarks", r"/(main|bench(_\w+)?|logits)\.cpp$|^tools/|/ladder/\w+s\.cpp$"),
          ("tests", r"^tests/|/test/"), ("pages and viz", r"^viz/|/page(_\w+)?\.cpp$|/pages\.cpp$"), ("lessons", r"")]
CHANGES = ["lessons/05_refcount_cow/block_manager.cpp", "lessons/05_refcount_cow/block_manager.h",
           "lessons/02_flat_cache/fast.cu", "kernels/matmul.cu", "kernels/attention/plan.h",
           "common/program/options.h", "common/model/engine.h", "common/base/device.h"]


def seconds_of(entry):
    """CPU time of one compilation, the compiler's children included."""
    words = [w for w in shlex.split(entry["command"]) if not w.endswith("ccache")]
    words[words.index("-o") + 1] = os.devnull
    for flag, extra in (("-MD", 1), ("-MT", 2), ("-MF", 2)):
        if flag in words:
            del words[words.index(flag) : words.index(flag) + extra]
    child = subprocess.Popen(words, cwd=entry["directory"])
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        raise SystemExit(f"this failed: {shlex.join(words)}")
    return usage.ru_utime + usage.ru_stime


def included_by(build):
    """From a source file to the objects that have to be compiled when it changes."""
    users = {}
    noted = subprocess.run(["ninja", "-C", build, "-t", "deps"], check=True, capture_output=True, text=True).stdout
    for block in noted.split("\n\n"):
        lines = block.strip().splitlines()
        for line in lines[1:]:
            path = pathlib.Path(os.path.normpath(build / line.strip()))
            users.setdefault(path, set()).add(lines[0].split(":")[0])
    return users


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "default")
    parser.add_argument("files", nargs="*", default=CHANGES)
    options = parser.parse_args()
    cost, groups = {}, {name: [0, 0.0] for name, _ in GROUPS}
    for entry in json.loads((options.build / "compile_commands.json").read_text()):
        words = shlex.split(entry["command"])
        name = os.path.relpath(entry["file"], ROOT)
        cost[words[words.index("-o") + 1]] = seconds = seconds_of(entry)
        group = groups[next(group for group, pattern in GROUPS if re.search(pattern, name))]
        group[0] += 1
        group[1] += seconds
    print(f"{'everything':<44} {len(cost):>5} files  {sum(cost.values()):>6.0f} s")
    for name, (files, seconds) in sorted(groups.items(), key=lambda item: -item[1][1]):
        print(f"  {name:<42} {files:>5} files  {seconds:>6.0f} s")
    users = included_by(options.build)
    for name in options.files:
        objects = [o for o in users.get(ROOT / name, ()) if o in cost]
        print(f"{name:<44} {len(objects):>5} files  {sum(cost[o] for o in objects):>6.0f} s")


if __name__ == "__main__":
    main()
