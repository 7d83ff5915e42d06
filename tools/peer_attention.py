#!/usr/bin/env python3
"""PyTorch's attention on our benchmarks' cases, beside ours: peer_attention.py [FILE...]

Needs a GPU and PyTorch. FILE is what `./course bench 4 --device cuda` has written, docs/figures/data/lesson04.json, or
what `./course bench-cuda --json FILE` has, for the attention of a prefill: run these first, on the same machine.
PyTorch reads contiguous K and V, [sequences, KV heads, tokens, head_dim]; ours finds each token through a block table
in bench 4. One query for each sequence there, all tokens of one in a prefill; bf16. Calls are replayed from a CUDA
graph, and the median counts. As in bench 4 the buffers of its cases are together at least three times as large as the
L2 cache. Each way that PyTorch has is tried, and the fastest shown."""
import json
import pathlib
import re
import statistics
import sys

from course_arguments import Parser, die, end_with

DATA = pathlib.Path(__file__).resolve().parents[1] / "docs" / "figures" / "data" / "lesson04.json"


def case_of(name):
    """Lengths and head_dim of a case by its name; None for what PyTorch has no cases of."""
    if "blocks of" in name or "window" in name:
        return None
    head_dim = int(m[1]) if (m := re.search(r"heads of (\d+)", name)) else 128
    if m := re.match(r"(\d+) uneven", name):
        shorter = [512 + i * 3584 // (int(m[1]) // 2) for i in range(int(m[1]) // 2)]
        return [length for s in shorter for length in (s, 8192 - s)], head_dim
    if m := re.match(r"(\d+) of 100 to 1,024", name):
        n = int(m[1])
        return [100 + i * 37 % n * 924 // (n - 1) for i in range(n)], head_dim
    m = re.match(r"(\d+) x ([\d,]+)", name)
    return [int(m[2].replace(",", ""))] * int(m[1]), head_dim


def seconds_of(torch, calls):
    """Of one call: the median of replays of a graph of all of them."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for call in calls:
            call()
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        results = [call() for call in calls]
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for _ in range(17):
        begin.record()
        for _ in range(3):
            graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3 / (3 * len(calls)))
    del results
    return statistics.median(times[1:])


def even_ways(torch, lengths, heads, head_dim, copies, kv_heads, queries=1):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    attend = torch.nn.functional.scaled_dot_product_attention
    n, length = len(lengths), lengths[0]
    new = lambda *sizes: torch.randn(*sizes, device="cuda", dtype=torch.bfloat16)
    q = new(n, heads, queries, head_dim)
    kv = [(new(n, kv_heads, length, head_dim), new(n, kv_heads, length, head_dim)) for _ in range(copies)]

    def way(backend):
        def call(k, v):
            with sdpa_kernel(backend):
                return attend(q, k, v, is_causal=queries > 1, enable_gqa=heads != kv_heads)
        return [lambda k=k, v=v: call(k, v) for k, v in kv]
    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cuDNN", SDPBackend.CUDNN_ATTENTION)):
        yield name, way(backend)


def uneven_ways(torch, lengths, heads, head_dim, copies, kv_heads):
    from torch.nn.attention import varlen
    new = lambda *sizes: torch.randn(*sizes, device="cuda", dtype=torch.bfloat16)
    n, total = len(lengths), sum(lengths)
    q = new(n, heads, head_dim)
    kv = [(new(total, kv_heads, head_dim), new(total, kv_heads, head_dim)) for _ in range(copies)]
    q_begins = torch.arange(n + 1, device="cuda", dtype=torch.int32)
    k_begins = torch.tensor([0] + lengths, device="cuda").cumsum(0).to(torch.int32)
    options = {"enable_gqa": True} if "enable_gqa" in varlen.varlen_attn.__code__.co_varnames else {}
    yield "varlen", [lambda k=k, v=v: varlen.varlen_attn(q, k, v, q_begins, k_begins, 1, max(lengths), **options)
                     for k, v in kv]


def fastest(torch, ways):
    """The times of the ways that work, and why others do not."""
    times, refused = {}, []
    try:
        for name, calls in ways:
            try:
                times[name] = seconds_of(torch, calls)
            except RuntimeError as error:
                refused.append(f"{name}: {str(error).strip().splitlines()[0][:60]}")
    except (ImportError, AttributeError, TypeError) as error:
        refused.append(str(error)[:70])
    torch.cuda.empty_cache()
    if len(times) > 1:
        print("   " + ", ".join(f"{name} {1e6 * t:.1f}" for name, t in times.items()), file=sys.stderr)
    return times, refused


def decode_steps(torch, ours):
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; beside bench 4 on {ours['device']}")
    print("microseconds, share of the plain read of bench 4\n")
    print(f"{'batch x context':28} {'ours':>15} {'PyTorch':>16}  by")
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
    for row in ours["cases"]:
        case = case_of(row["case"])
        if case is None:
            continue
        lengths, head_dim = case
        copies = max(1, -(-3 * l2_bytes // int(row["bytes"])))
        ways = even_ways if len(set(lengths)) == 1 else uneven_ways
        times, refused = fastest(torch, ways(torch, lengths, row["heads"], head_dim, copies, row["kv_heads"]))
        share = lambda seconds: f"{seconds * 1e6:7.1f} {100 * row['read_seconds'] / seconds:5.1f} %"
        best = min(times, key=times.get, default=None)
        theirs = share(times[best]) if best else "-"
        print(f"{row['case']:28} {share(row['paged_seconds']):>15} {theirs:>16}  {best or '; '.join(refused)}")


def prefills(torch, ours):
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}; TFLOP/s\n")
    print(f"{'prefill':28} {'ours':>15} {'PyTorch':>16}  by")
    for row in ours["prefill_attention"]:
        tokens, heads, head_dim = row["tokens"], row["heads"], row["head_dim"]
        times, refused = fastest(torch, even_ways(torch, [tokens], heads, head_dim, 1, row["kv_heads"], tokens))
        best = min(times, key=times.get, default=None)
        theirs = f"{row['tflops'] * row['seconds'] / times[best]:.0f}" if best else "-"
        print(f"{f'{tokens:,} tokens':28} {row['tflops']:15.0f} {theirs:>16}  {best or '; '.join(refused)}")


def main():
    parser = Parser(__doc__)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE", default=[DATA])
    files = parser.parse_args().files
    try:
        import torch
    except ImportError:
        die("PyTorch is not here; this measures PyTorch's attention")
    if not torch.cuda.is_available():
        die("PyTorch sees no GPU here")
    for file in files:
        ours = json.loads(file.read_text(encoding="utf-8"))
        (prefills if "prefill_attention" in ours else decode_steps)(torch, ours)


if __name__ == "__main__":
    end_with(main)
