#!/usr/bin/env python3
"""What kernel_traffic.py counts of traffic.cu's kernels, against what a person counts: traffic_test.py PROGRAM"""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import kernel_traffic  # noqa: E402

# Of the kernel's loads, in both warps together: requests; sectors or passes; the least; bytes wanted.
LOADS = {
    ("coalesced", "global"): (2, 8, 8, 256),
    ("stride_2", "global"): (2, 16, 8, 256),  # 256 bytes apart for 32 lanes: every second word of 8 sectors
    ("stride_32", "global"): (2, 64, 8, 256),  # each lane has a sector of its own
    ("backwards", "global"): (2, 8, 8, 256),
    ("misaligned", "global"): (2, 10, 8, 256),  # 128 bytes that begin in the middle of a sector
    ("one_address", "global"): (2, 2, 2, 8),
    ("half_masked", "global"): (2, 4, 4, 128),
    ("two_bytes", "global"): (2, 4, 4, 128),
    ("sixteen_bytes", "global"): (2, 32, 32, 1024),
    ("a_row_each", "global"): (8, 256, 32, 1024),  # 4 requests of a warp, 32 sectors each
    ("shared_in_order", "shared"): (2, 2, 2, 256),
    ("shared_one_word", "shared"): (2, 2, 2, 256),  # one word of a bank goes to all lanes at once
    ("shared_stride_2", "shared"): (2, 4, 2, 256),
    ("shared_stride_32", "shared"): (2, 64, 2, 256),
    ("shared_padded", "shared"): (2, 2, 2, 256),
    ("shared_sixteen_bytes", "shared"): (2, 8, 8, 1024),  # eight lanes at a time
}
STORES = {("half_masked", "global"): (2, 4, 4, 128), ("sixteen_bytes", "global"): (2, 32, 32, 1024),
          ("shared_sixteen_bytes", "shared"): (2, 8, 8, 1024), ("shared_sixteen_bytes", "global"): (2, 32, 32, 1024)}


def main():
    with tempfile.TemporaryDirectory() as folder:
        trace = f"{folder}/trace"
        subprocess.run([sys.argv[1]], check=True, env={**os.environ, "SIMT_TRACE": trace})
        sums = kernel_traffic.sums(kernel_traffic.read(trace))
    counted = {(s["kernel"], s["space"], s["op"]): (s["requests"], s["moved"], s["best"], s["wanted"]) for s in sums}
    wanted = {(*key, "load"): counts for key, counts in LOADS.items()}
    for kernel, space, _ in list(wanted):  # every kernel stores a float in each thread
        wanted[kernel, "global", "store"] = (2, 8, 8, 256)
        if space == "shared":
            wanted[kernel, space, "store"] = (2, 2, 2, 256)
            wanted[kernel, "global", "load"] = (2, 8, 8, 256) if "sixteen" not in kernel else (2, 32, 32, 1024)
    wanted |= {(*key, "store"): counts for key, counts in STORES.items()}
    wrong = [key for key in sorted(wanted.keys() | counted.keys()) if wanted.get(key) != counted.get(key)]
    for key in wrong:
        print(f"{' '.join(key)}: counted {counted.get(key)}, wanted {wanted.get(key)}")
    print(f"{len(wanted) - len(wrong)} of {len(wanted)} counts are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
