#!/usr/bin/env bash
# The server over HTTP beside the engine without it, in one run: `./course bench 8 --serve` makes up requests and measures
# the engine, then `./course load` sends the very same ones to `./course serve`. Prints a table, and writes the numbers.
#
#   tools/serve_bench.sh --bin build/cpu/bin --json http_cpu.json
#   tools/serve_bench.sh --bin build/gpu_check/bin --device cuda --model DIR --json http_cuda.json
#
# DIR: ./course make-model --like qwen3-0.6b --out DIR. Each rate is the median of three rounds after one to warm up. A
# cache_salt of its own keeps a round from finding what an earlier one has left in the cache.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
bin=$here/build/cpu/bin device=cpu model=$here/models/tiny json=/dev/null
while [ $# -gt 1 ]; do
  case $1 in
    --bin) bin=$2 ;; --device) device=$2 ;; --model) model=$2 ;; --json) json=$2 ;; *) break ;;
  esac
  shift 2
done
[ $# -eq 0 ] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit 2; }

[ ! -d "$bin/../lib" ] || export LD_LIBRARY_PATH=$bin/../lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

work=$(mktemp -d) server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT

"$bin/lesson08_bench" --serve --device "$device" --model "$model" --write-requests "$work" --json "$work/engine.json" >"$work/engine.log"

# The options of the engine that was just measured.
tokens=512
[ "$device" = cpu ] || tokens=8192
"$bin/serve" --port 0 --device "$device" --model "$model" --greedy --max-running 256 --max-tokens-per-pass "$tokens" >"$work/server.log" &
server=$!
until grep -q http "$work/server.log"; do
  kill -0 "$server" 2>/dev/null || { echo "error: the server has not started" >&2; exit 1; }
  sleep 0.1
done
url=$(grep -o 'http://[^ ]*' "$work/server.log")

# send NAME CONCURRENCY ROUND: the requests of a file, all of them once
send() {
  sed "s/^{/{\"cache_salt\":\"$3\",/" "$work/$1.jsonl" >"$work/salted"
  "$bin/load" --url "$url" --prompts "$work/salted" --num-requests "$(wc -l <"$work/salted")" --concurrency "$2" --json "$work/$1.$3.json" >"$work/load.log"
}
for file in "$work"/requests_*.jsonl; do
  name=$(basename "$file" .jsonl)
  for round in 0 1 2 3; do send "$name" "${name#requests_}" "$round"; done
done
# One after the other from one client, each with a salt of its own, so that nothing is found in the cache.
for round in {0..15}; do sed "s/^{/{\"cache_salt\":\"$round\",/" "$work/first_token.jsonl"; done >"$work/salted"
"$bin/load" --url "$url" --prompts "$work/salted" --num-requests 16 --concurrency 1 --json "$work/first_token.json" >"$work/load.log"

python3 - "$work" "$json" <<'PY'
import json, pathlib, statistics, sys
work = pathlib.Path(sys.argv[1])
load = lambda name: json.loads((work / name).read_text())
engine = load("engine.json")["serving"]
rows = []
print("requests  engine, tokens/s  over HTTP, tokens/s   ratio\n" + "--------  ----------------  -------------------  ------")
for row in engine["rows"]:
    count = row["requests"]
    sent = [load(f"requests_{count}.{i}.json") for i in range(4)]
    assert all(one["whole"] == count for one in sent), "an answer is missing"
    rate = statistics.median(one["tokens_per_second"] for one in sent[1:])
    rows.append({"requests": count, "engine": row["tokens_per_second"], "http": rate, "rounds": [one["tokens_per_second"] for one in sent]})
    print(f"{count:<8}  {row['tokens_per_second']:>16,.0f}  {rate:>19,.0f}  {100 * rate / row['tokens_per_second']:>4.1f} %")
direct = 1e3 * engine["first_token_seconds"]
http = load("first_token.json")["first_token_ms"]["p50"]
print(f"\nfirst token of a prompt of 512, nothing else to do: {direct:.2f} ms, over HTTP {http:.2f} ms")
result = {"device": engine["device"], "rows": rows, "first_token_ms": {"engine": direct, "http": http}}
if sys.argv[2] != "/dev/null":
    pathlib.Path(sys.argv[2]).write_text(json.dumps(result, indent=2) + "\n")
PY
