#!/usr/bin/env python3
"""Makes the file that the visualizer's page about one warp shows, from the trace of a simulated GPU.

  warp_trace.py TRACE OUT.json
  warp_trace.py --ship

TRACE is what a program of a simt-trace build writes with SIMT_TRACE=TRACE. OUT.json has a line for each line
of source that loads or stores: its counts, as `./course kernel N --traffic` prints them, and the first eight
requests, lane by lane; `./course viz --trace OUT.json` shows it. --ship makes simt/page/traces again, from
programs in build/simt-trace.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import course_arguments
import kernel_traffic
from course_builds import ROOT, shown

BIN = ROOT / "build/simt-trace/bin"
MOST_BYTES = 16  # of a lane: more at once is a copy of a structure, not one instruction
# What ships: name, program, its arguments, the kernels.
SHIPPED = {
    "coalesced": ("simt_patterns", ["coalesced"], "coalesced_kernel"),
    "strided": ("simt_patterns", ["strided"], "strided_kernel"),
    "one_bank": ("simt_patterns", ["one_bank"], "transpose_kernel"),
    "padded": ("simt_patterns", ["padded"], "transpose_kernel"),
    "write_kv": ("lesson03_gpu_test", ["--test-suite=kernel", "--test-case=rows go to their slots*"], "write_kv_kernel"),
}


def requests_of(row, base, most):
    """The requests that the trace has kept, as lists of 32 places from `base` on."""
    kept = row["shown"][:most]
    return [{"block": r["block"], "warp": r["warp"],
             "lanes": [r["lanes"][str(i)] - base if str(i) in r["lanes"] else None for i in range(32)]} for r in kept]


def lines_of(kernel, most):
    # A GPU's shared memory begins with the kernel's first array, in bank 0; here it lies where the compiler put it.
    shared = min((at for key, row in kernel.rows.items() if key.space == "shared"
                  for r in row["example"]["shown"][:most] for at in r["lanes"].values()), default=0)
    for key, total in sorted(kernel.rows.items()):
        if key.bytes > MOST_BYTES:
            continue
        yield {"kernel": kernel.name, "file": shown(key.file), "line": key.line,
               "text": kernel_traffic.source_line(key.file, key.line), "space": key.space, "op": key.op, "bytes": key.bytes,
               "requests": total["requests"], "wanted": total["wanted"], "moved": total["moved"], "least": total["best"],
               "shown": requests_of(total["example"], shared if key.space == "shared" else 0, most)}


def text_of(made_by, lines):
    """JSON with a line for each line of source and for each of its requests."""
    rows = []
    for line in lines:
        shown = ",\n   ".join(json.dumps(request, separators=(",", ":")) for request in line.pop("shown"))
        rows.append(json.dumps(line)[:-1] + ', "shown": [\n   ' + shown + "]}")
    return '{"made_by": ' + json.dumps(made_by) + ',\n "lines": [\n  ' + ",\n  ".join(rows) + "]}\n"


def write(trace, out, made_by, folders=(), name=None, most=8):
    kernels = [kernel for kernel in kernel_traffic.read(trace, folders) if name in (None, kernel.name)]
    lines = [line for kernel in kernels for line in lines_of(kernel, most)]
    if not lines:
        course_arguments.die(f"{trace}: no load or store was traced{' of ' + name if name else ''}")
    pathlib.Path(out).write_text(text_of(made_by, lines))


def ship():
    for name, (program, arguments, kernel) in SHIPPED.items():
        if not (BIN / program).exists():
            course_arguments.die(f"{shown(BIN / program)} is not there; COURSE_PRESET=simt-trace ./course build {program}")
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace"
            subprocess.run([BIN / program, *arguments], env={**os.environ, "SIMT_TRACE": str(trace)}, check=True,
                           stdout=subprocess.DEVNULL)
            out = ROOT / f"simt/page/traces/{name}.json"
            write(trace, out, "python3 tools/warp_trace.py --ship", name=kernel, most=4)
            print(f"{shown(out)}: {out.stat().st_size:,} bytes")


def main():
    if sys.argv[1:] == ["--ship"]:
        return ship()
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    return write(sys.argv[1], sys.argv[2], made_by=sys.argv[1])


if __name__ == "__main__":
    course_arguments.end_with(main, ValueError, subprocess.SubprocessError)
