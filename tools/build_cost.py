#!/usr/bin/env python3
"""What building costs: the seconds of every target by group, and of what a change builds again.

    rm -rf build/default && ./course build       # from nothing, without ccache, with nothing else running
    tools/build_cost.py [--build build/default] [FILE...]

Reads what ninja noted: when each target began and ended, and which file includes which. With no more
jobs than cores the sums are about CPU-seconds.
"""
import argparse
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
GROUPS = [("CUDA (.cu)", r"\.cu\.o$"), ("linking, archives, lists of tests", r"(?<!\.o)$"),
          ("common and kernels", r"^(common|kernels)/"),
          ("programs and benchmarks", r"/(main|bench(_\w+)?|logits)\.cpp\.o$|^tools/|/ladder/\w*\.dir/lessons"),
          ("tests", r"^tests/|/test/|kv_test_main"), ("pages and viz", r"^viz/|/page(_\w+)?\.cpp\.o$"),
          ("lessons", r"")]
CHANGES = ["lessons/05_refcount_cow/block_manager.cpp", "lessons/05_refcount_cow/block_manager.h",
           "lessons/02_flat_cache/fast.cu", "kernels/matmul.cu", "kernels/attention/plan.h",
           "common/program/options.h", "common/model/engine.h", "common/base/device.h"]


def seconds_of_targets(build):
    """The last time each target was built; `all` alone, without what is built on demand."""
    wanted = set(ninja(build, "inputs", "all").splitlines())
    seconds = {}
    for line in (build / ".ninja_log").read_text().splitlines()[1:]:
        begin, end, _, target, _ = line.split("\t")
        if target in wanted or target.startswith("bin/"):
            seconds[target] = (int(end) - int(begin)) / 1000
    return seconds


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
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "default")
    parser.add_argument("files", nargs="*", default=CHANGES)
    options = parser.parse_args()
    seconds = seconds_of_targets(options.build)
    groups = {}
    for target in seconds:
        groups.setdefault(next(name for name, pattern in GROUPS if re.search(pattern, target)), []).append(target)
    rows = [("everything", seconds)] + sorted(groups.items(), key=lambda row: -sum(map(seconds.get, row[1])))
    users = included_by(options.build)
    source = next(p.parents[2] for p in users if p.match("common/base/error.h"))  # where this was built
    rows += [(name, [o for o in users.get(source / name, ()) if o in seconds]) for name in options.files]
    for name, targets in rows:
        print(f"{name:<44} {len(targets):>4} targets {sum(map(seconds.get, targets)):>6.0f} s")


if __name__ == "__main__":
    main()
