#!/usr/bin/env python3
"""What binds a kernel: one row for each launch that Nsight Compute profiles, on a machine with a GPU.

  nsight_limits.py [--kernels REGEX] [--skip N] [--launches N] [--ncu PROGRAM] [--raw FILE.csv] -- PROGRAM ARGUMENTS...

  us       of the launch alone: nothing overlaps it, and the caches are empty
  CTAs     and how many rounds of them the GPU makes (below 1: SMs stay without one, or could hold more)
  active   share of the time in which an SM has a CTA, mean over the SMs
  DRAM, L2, SM   share of the peak; SM: of its busiest unit, tensor cores and shared memory among them
  issued   share of a scheduler's cycles in which an instruction is issued
  warps    on an SM, mean
  waits for      of the cycles that a warp takes from one instruction to the next, the most frequent reasons

The GPU's clocks are left as they are."""
import csv
import pathlib
import re

from course_arguments import Parser, end_with
from nsight_counts import printed_rows

SECTIONS = ["LaunchStats", "SpeedOfLight", "SchedulerStats", "WarpStateStats", "Occupancy"]
ACTIVE = "sm__cycles_active.avg.pct_of_peak_sustained_elapsed"
COLUMNS = {"CTAs": ("launch__grid_size", "{:,.0f}"), "rounds": ("launch__waves_per_multiprocessor", "{:.2f}"),
           "active": (ACTIVE, "{:.0f} %"), "DRAM": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "{:.0f} %"),
           "L2": ("lts__throughput.avg.pct_of_peak_sustained_elapsed", "{:.0f} %"),
           "SM": ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "{:.0f} %"),
           "issued": ("smsp__issue_active.avg.per_cycle_active", "{:.0%}"),
           "warps": ("sm__warps_active.avg.per_cycle_active", "{:.1f}")}
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active")
REASONS = {"long_scoreboard": "memory", "short_scoreboard": "shared memory", "no_instruction": "instructions", "wait": "fixed latency",
           "math_pipe_throttle": "a busy unit", "mio_throttle": "shared memory's queue", "lg_throttle": "memory's queue",
           "gmma": "wgmma", "membar": "a fence", "selected": "nothing", "not_selected": "its turn",
           "dispatch_stall": "dispatch", "branch_resolve": "a branch", "imc_miss": "constants", "sleeping": "a nap"}


def profiled(options):
    command = [options.ncu, "--csv", "--page", "raw", "--print-units", "base", "--print-kernel-base", "function", "--clock-control", "none",
               "--metrics", ACTIVE, "--launch-skip", str(options.skip), "--launch-count", str(options.launches)]
    for section in SECTIONS:
        command += ["--section", section]
    if options.kernels:
        command += ["--kernel-name-base", "function", "--kernel-name", "regex:" + options.kernels]
    rows = printed_rows(command + options.program)
    if options.raw:
        options.raw.write_text("\n".join(rows) + "\n")
    return list(csv.DictReader(rows))[1:]  # the first row has the units


def number(row, metric):
    text = row.get(metric, "").replace(",", "")
    return float(text) if text else None


def waits(row):
    cycles = {}
    for column in row:
        found = STALL.match(column)
        if found and not found[1].endswith("not_issued"):
            cycles[found[1]] = number(row, column) or 0.0
    total = sum(cycles.values())
    most = sorted(cycles, key=cycles.get, reverse=True)[:3]
    return ", ".join(f"{REASONS.get(name, name)} {cycles[name] / total:.0%}" for name in most) if total else "?"


def main():
    parser = Parser(__doc__)
    parser.add_argument("--kernels", default="")
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--launches", type=int, default=1)
    parser.add_argument("--ncu", default="ncu")
    parser.add_argument("--raw", type=pathlib.Path)
    parser.add_argument("program", nargs="+")
    options = parser.parse_args()
    print(f"{'kernel':<26}{'us':>7}" + "".join(f"{name:>9}" for name in COLUMNS) + "  waits for")
    for row in profiled(options):
        cells = [(shape.format(value) if (value := number(row, metric)) is not None else "?") for metric, shape in COLUMNS.values()]
        us = (number(row, "gpu__time_duration.sum") or 0) / 1000
        name = row["Kernel Name"].split("(")[0].split("<")[0]
        print(f"{name:<26}{us:7.1f}" + "".join(f"{cell:>9}" for cell in cells) + "  " + waits(row))


if __name__ == "__main__":
    end_with(main)
