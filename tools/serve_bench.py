#!/usr/bin/env python3
"""The server over HTTP beside the engine without it, in one run: `./course bench 8 --serve` makes up requests and
measures the engine, then `./course load` sends the very same ones to `./course serve`. Prints a table.

  tools/serve_bench.py --bin build/cpu/bin --json http_cpu.json
  tools/serve_bench.py --bin build/gpu_check/bin --device cuda --model DIR --json http_cuda.json

DIR: ./course make-model --like qwen3-0.6b --out DIR. Each rate is the median of three rounds after one to warm up. A
cache_salt of its own keeps a round from finding what an earlier one has left in the cache."""
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

from course_arguments import Parser, end_with
from course_builds import ROOT


def salted(requests, salt):
    return "".join(json.dumps({"cache_salt": str(salt), **json.loads(line)}) + "\n" for line in requests.splitlines())


def send(options, url, work, requests, concurrency):
    """Sends requests, a line each, all of them once; what `load` says of the answers."""
    (work / "salted").write_text(requests)
    command = [options.bin / "load", "--url", url, "--prompts", work / "salted", "--concurrency", str(concurrency),
               "--num-requests", str(requests.count("\n")), "--json", work / "load.json"]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return json.loads((work / "load.json").read_text())


def measure(options, engine, url, work):
    rows = []
    print("requests  engine, tokens/s  over HTTP, tokens/s   ratio")
    print("--------  ----------------  -------------------  ------")
    for row in engine["rows"]:
        count, rate = row["requests"], row["tokens_per_second"]
        requests = (work / f"requests_{count}.jsonl").read_text()
        sent = [send(options, url, work, salted(requests, i), count) for i in range(4)]
        assert all(one["whole"] == count for one in sent), "an answer is missing"
        rounds = [one["tokens_per_second"] for one in sent]
        http = statistics.median(rounds[1:])
        rows.append({"requests": count, "engine": rate, "http": http, "rounds": rounds})
        print(f"{count:<8}  {rate:>16,.0f}  {http:>19,.0f}  {100 * http / rate:>4.1f} %", flush=True)
    # One after the other from one client, each with a salt of its own, so that nothing is found in the cache.
    one_by_one = "".join(salted((work / "first_token.jsonl").read_text(), i) for i in range(16))
    first = {"engine": 1e3 * engine["first_token_seconds"],
             "http": send(options, url, work, one_by_one, 1)["first_token_ms"]["p50"]}
    times = f"{first['engine']:.2f} ms, over HTTP {first['http']:.2f} ms"
    print(f"\nfirst token of a prompt of 512, nothing else to do: {times}")
    return {"device": engine["device"], "rows": rows, "first_token_ms": first}


def main():
    parser = Parser(__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "build/cpu/bin")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", default=ROOT / "models/tiny")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    libraries = options.bin.resolve().parent / "lib"  # of what tools/gpu_check.sh has packed
    if libraries.is_dir():
        os.environ["LD_LIBRARY_PATH"] = f"{libraries}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    model = ["--device", options.device, "--model", options.model]
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        subprocess.run([options.bin / "lesson08_bench", "--serve", *model, "--write-requests", work,
                        "--json", work / "engine.json"], stdout=subprocess.DEVNULL, check=True)
        # The options of the engine that was just measured.
        tokens = "512" if options.device == "cpu" else "8192"
        command = [options.bin / "serve", "--port", "0", *model, "--greedy", "--max-running", "256",
                   "--max-tokens-per-pass", tokens]
        log = work / "server.log"
        server = subprocess.Popen(command, stdout=log.open("w"))
        try:
            while not (url := re.search(r"http://\S*(?=\s)", log.read_text())):
                time.sleep(0.1)
                assert server.poll() is None, "the server has not started"
            result = measure(options, json.loads((work / "engine.json").read_text())["serving"], url[0], work)
        finally:
            server.terminate()
            server.wait()
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    end_with(main, subprocess.SubprocessError)
