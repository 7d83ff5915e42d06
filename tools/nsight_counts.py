#!/usr/bin/env python3
"""Compares what the simulated GPU counts with what Nsight Compute counts on a real one.

  nsight_counts.py --gpu BUILD --trace BUILD [--ncu PROGRAM] [--out FILE.csv]   both runs, on a machine with a GPU
  nsight_counts.py --logits FILE FILE                                           logits of the two, from ./course logits

The plain kernels of lessons 02, 03 and 04 run in both builds on the same input, the lessons' cases of
the test suite "kernel". For each kernel the requests and sectors of all its launches are summed, loads
and stores apart: a compiler may move, widen or merge the loads of a line, so lines are not compared.
Exit code 0 also if the counts differ: a difference wants an explanation, not a repair."""
import collections
import csv
import json
import os
import pathlib
import struct
import subprocess
import tempfile

import kernel_traffic
from course_arguments import Parser, die, end_with

KERNELS = {2: ["append_kv_kernel", "decode_attention_kernel"], 3: ["write_kv_kernel", "gather_kv_kernel"],
           4: ["paged_attention_kernel"]}
METRICS = {f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum": ("global", name, key)
           for op, name in (("ld", "load"), ("st", "store")) for what, key in (("requests", "requests"), ("sectors", "moved"))}
METRICS |= {f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum": ("shared", name, "moved")
            for op, name in (("ld", "load"), ("st", "store"))}


def traced(build, number):
    program = build / "bin" / f"lesson{number:02d}_gpu_test"
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder) / "trace"
        subprocess.run([program, "--test-suite=kernel"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "SIMT_TRACE": str(trace)})
        kernels = kernel_traffic.read(trace)
    counts = {(s["kernel"], s["space"], s["op"]): s for s in kernel_traffic.sums(kernels)}
    return counts, {kernel.name: kernel.launches for kernel in kernels}


def printed_rows(command):
    """The lines of CSV that ncu prints, from the heads of the columns on."""
    lines = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        die(f"{command[0]} profiled nothing (does the program run the kernels?):\n" + "\n".join(lines[-15:]))
    return [line for line in lines[start:] if line.startswith('"')]


def profiled(build, number, ncu):
    """A kernel's launch and one of its metrics each."""
    program = build / "bin" / f"lesson{number:02d}_gpu_test"
    command = [ncu, "--csv", "--print-units", "base", "--print-kernel-base", "function", "--kernel-name-base", "function",
               "--kernel-name", "regex:^(" + "|".join(KERNELS[number]) + ")$", "--metrics", ",".join(METRICS),
               str(program), "--test-suite=kernel"]
    return list(csv.DictReader(printed_rows(command)))


def compare(gpu, trace, ncu, out):
    rows = []
    print(f"{'kernel':<26}{'launches':>9}  {'what':<22}{'simulated':>12}{'Nsight':>12}")
    for number, names in KERNELS.items():
        counts, launches = traced(trace, number)
        measured, ids = collections.Counter(), collections.defaultdict(set)
        for row in profiled(gpu, number, ncu):
            rows.append(row)
            ids[row["Kernel Name"]].add(row["ID"])
            measured[(row["Kernel Name"], *METRICS[row["Metric Name"]])] += float(row["Metric Value"].replace(",", ""))
        for name in names:
            if len(ids[name]) != launches.get(name, 0):
                print(f"{name}: {launches.get(name, 0)} launches in the trace, {len(ids[name])} on the GPU")
            for space, op, key in METRICS.values():
                ours = counts.get((name, space, op), {}).get(key, 0)
                theirs = round(measured[name, space, op, key])
                if ours == theirs == 0:
                    continue
                what = {"requests": "requests", "moved": "sectors" if space == "global" else "passes"}[key]
                verdict = "equal" if ours == theirs else f"{(ours - theirs) / theirs:+.1%}" if theirs else "differs"
                print(f"{name:<26}{launches.get(name, 0):>9}  {f'{space} {op} {what}':<22}{ours:>12,}{theirs:>12,}  {verdict}")
    if out:
        with open(out, "w", newline="") as file:
            writer = csv.DictWriter(file, ["Kernel Name", "ID", "Metric Name", "Metric Value"], extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)


def logits_of(path):
    """Rows of a file that ./course logits wrote."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    tensor = json.loads(data[8 : 8 + length])["logits"]
    num_rows, width = tensor["shape"]
    begin = 8 + length + tensor["data_offsets"][0]
    return [struct.unpack_from(f"<{width}f", data, begin + 4 * width * row) for row in range(num_rows)]


def compare_logits(one, other):
    a, b = logits_of(one), logits_of(other)
    if len(a) != len(b):
        die(f"{one} has {len(a)} rows, {other} {len(b)}; wanted the same tokens")
    pairs = [pair for row in zip(a, b) for pair in zip(*row)]
    largest = max(abs(x) for x, _ in pairs)
    equal = sum(x == y for x, y in pairs)
    same_token = sum(max(range(len(x)), key=x.__getitem__) == max(range(len(y)), key=y.__getitem__) for x, y in zip(a, b))
    print(f"{len(a)} rows, {len(pairs):,} logits, the largest {largest:.2f}: they differ by at most "
          f"{max(abs(x - y) for x, y in pairs):.2g}, {equal / len(pairs):.0%} have equal bits; "
          f"the most probable token is the same in {same_token} rows")


def main():
    parser = Parser(__doc__)
    parser.add_argument("--gpu", type=pathlib.Path, help="a build with CUDA (-lineinfo is not needed: kernels are compared, not lines)")
    parser.add_argument("--trace", type=pathlib.Path, help="a build of the preset simt-trace")
    parser.add_argument("--ncu", default="ncu")
    parser.add_argument("--out", help="what Nsight Compute counted, as CSV")
    parser.add_argument("--logits", nargs=2, metavar="FILE")
    options = parser.parse_args()
    if options.logits:
        compare_logits(*options.logits)
    elif options.gpu and options.trace:
        compare(options.gpu, options.trace, options.ncu, options.out)
    else:
        parser.error("wanted --gpu and --trace, or --logits")


if __name__ == "__main__":
    end_with(main, subprocess.SubprocessError, KeyError, ValueError)
