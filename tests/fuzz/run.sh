#!/bin/sh
# Runs each fuzzer for SECONDS from small seeds, one on each processor at a time. A crash ends with an
# error, and leaves its input in BUILD_DIR/fuzz.
#
#   cmake --preset fuzz && cmake --build --preset fuzz --target fuzzers
#   tests/fuzz/run.sh build/fuzz 60
set -eu
if [ $# -lt 2 ]; then
  echo "usage: $0 BUILD_DIR SECONDS [READER]" >&2
  exit 2
fi
build=$(cd "$1" && pwd)
seconds=$2
reader=${3:-}
if [ -z "$reader" ]; then
  printf '%s\n' safetensors config tokenizer kv_events block_file api_request |
    xargs -n 1 -P "$(nproc)" sh "$0" "$build" "$seconds"
  exit
fi
here=$(cd "$(dirname "$0")" && pwd)
work=$build/fuzz
if [ ! -x "$build/bin/fuzz_$reader" ]; then
  echo "error: $build/bin/fuzz_$reader is not there; build the target 'fuzzers' first" >&2
  exit 2
fi
mkdir -p "$work/$reader"
# A sane input takes microseconds: ten seconds are a hang, 2 GB a missing limit.
"$build/bin/fuzz_$reader" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
  -max_len=16384 -dict="$here/$reader.dict" -artifact_prefix="$work/$reader-" \
  -print_final_stats=1 "$work/$reader" "$here/seeds/$reader" > "$work/$reader.log" 2>&1 || {
  tail -40 "$work/$reader.log"
  exit 1
}
echo "fuzz_$reader, $seconds seconds: $(grep -E "stat::number_of_executed_units" "$work/$reader.log" || true)"
