#!/bin/sh
# Runs each fuzzer for SECONDS, from small seeds that are made here. A crash ends with code 1, and
# leaves its input in BUILD_DIR/fuzz.
#
#   cmake --preset fuzz && cmake --build --preset fuzz --target fuzzers
#   tests/fuzz/run.sh build/fuzz 60
set -eu
if [ $# -ne 2 ]; then
  echo "usage: $0 BUILD_DIR SECONDS" >&2
  exit 2
fi
build=$(cd "$1" && pwd)
seconds=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$build/fuzz
mkdir -p "$work"

status=0
for reader in safetensors config tokenizer kv_events; do
  if [ ! -x "$build/bin/fuzz_$reader" ]; then
    echo "error: $build/bin/fuzz_$reader is not there; build the target 'fuzzers' first" >&2
    exit 2
  fi
  mkdir -p "$work/$reader"
  echo "fuzz_$reader: $seconds seconds"
  # A sane input takes microseconds: ten seconds are a hang, 2 GB a missing limit.
  if ! "$build/bin/fuzz_$reader" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -max_len=16384 -dict="$here/$reader.dict" -artifact_prefix="$work/$reader-" \
    -print_final_stats=1 "$work/$reader" "$here/seeds/$reader" > "$work/$reader.log" 2>&1; then
    tail -40 "$work/$reader.log"
    status=1
  fi
  grep -E "stat::number_of_executed_units" "$work/$reader.log" || true
done
exit $status
