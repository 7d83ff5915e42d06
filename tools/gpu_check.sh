#!/usr/bin/env bash
# Everything that needs a GPU, in one go: the GPU tests, compute-sanitizer over them, the ladder and
# the benchmarks on CUDA. Two steps, so that the machine with the GPU needs neither this project's
# libraries nor a build:
#
#   tools/gpu_check.sh pack    where the project builds: build, and gather what runs in
#                              build/gpu_check.tar.xz
#   tools/gpu_check.sh run     on a GPU machine, in this folder, with that file brought along
#
# Environment: CMAKE_CUDA_ARCHITECTURES  for pack; default 90a-real (an H100 or H200)
#              GPU_CHECK_JOBS            for pack: build jobs; default all cores
#              GPU_CHECK_BUILD           build folder; default build/cuda
#              GPU_CHECK_ONLY            for run: only programs whose name this pattern matches (grep -E)
#              GPU_CHECK_OUT             for run: also put the benchmarks' JSON files there
#
# tools/measured.py record "./course bench 9 --device cuda --model DIR" lesson09_cuda.json <guesses.log   puts them into
# docs/figures/data and the texts, where the project is.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
here=$PWD
bundle=$here/build/gpu_check
build=${GPU_CHECK_BUILD:-$here/build/cuda}

die() {
  printf 'error: %s\n' "$*" >&2
  exit 2
}

# --- pack ---

only=${GPU_CHECK_ONLY:-.}

gpu_programs() { (cd "$1" && ls -d ./*_gpu_test) | sed 's|^\./||' | grep -E "$only"; }
tools=(ladder bench_cuda make_model logits lesson{04,06,08,09,10,11,12,13,14}_bench {lesson04,kernels}_road_bench)
wanted() { grep -qE "$only" <<<"$1"; }

pack() {
  local programs file targets
  mkdir -p "$here/build"
  cmake --preset cuda -B "$build" -DKV_WINGS=ON -DCMAKE_CUDA_ARCHITECTURES="${CMAKE_CUDA_ARCHITECTURES:-90a-real}" \
    >"$here/build/gpu_check_configure.log" 2>&1 ||
    die "configuring failed, see build/gpu_check_configure.log"
  mapfile -t targets < <(cmake --build "$build" --target help | grep -oE '^[a-z0-9_]+: ' | tr -d ': ' |
    grep -E '_gpu_test$|^(serve|load)$' | grep -v '^cmake_')  # these two need libevent
  cmake --build "$build" -j "${GPU_CHECK_JOBS:-$(nproc)}" --target "${targets[@]}" "${tools[@]}" || die "the build failed"
  rm -rf "$bundle"
  mkdir -p "$bundle/bin" "$bundle/lib"
  programs=$(only=. gpu_programs "$build/bin")
  for file in $programs "${tools[@]}" serve load; do
    [ -x "$build/bin/$file" ] || continue
    strip -o "$bundle/bin/$file" "$build/bin/$file"
  done
  # Libraries that a bare machine may lack: all but the C and C++ run-time libraries.
  ldd "$bundle"/bin/* | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux[^/]*)\.so' |
    xargs -r -I{} cp -L {} "$bundle/lib/"
  printf '%s\n' "$here" >"$bundle/source_dir"
  # The programs are alike: a dictionary over several of them packs them to a sixth of what gzip does.
  tar -C "$bundle" -cf - . | xz -T0 --lzma2=preset=3,dict=96MiB >"$bundle.tar.xz"
  du -sh "$bundle.tar.xz" | awk '{print "packed " $1 " in build/gpu_check.tar.xz"}'
}

# --- run ---

# step NAME LIMIT_S COMMAND...: runs the command, keeps its output in a log, notes the result in a table.
step() {
  local name=$1 limit=$2 log begin seconds code note
  shift 2
  log=$logs/${name// /_}.log
  begin=$(date +%s)
  timeout "$limit" "$@" >"$log" 2>&1
  code=$?
  seconds=$(($(date +%s) - begin))
  case $code in
    0) note=ok ;;
    77) note="FAILED: no usable GPU" ;;
    124) note="FAILED: not done in $limit s" ;;
    *) note="FAILED: exit code $code" ;;
  esac
  if [ "$code" -ne 0 ]; then
    echo "FAILED: $name"
    grep -E 'ERROR|error|Error|Invalid|Race|values:|logged:|SKIP' "$log" | head -20
    tail -5 "$log"
  fi
  printf '%-44s %5s s  %s\n' "$name" "$seconds" "$note" >>"$logs/table"
}

# The tests know the folder they were built from; if that is another one, a link stands in for it.
link_source_dir() {
  local built_in
  built_in=$(cat "$bundle/source_dir")
  [ "$built_in" = "$here" ] && return
  [ -e "$built_in/models" ] && return
  if ! mkdir -p "$(dirname "$built_in")" || ! ln -sfn "$here" "$built_in"; then
    die "the tests were built in $built_in and look for files there; link it to $here"
  fi
}

# Cases left out under the sanitizers: gigabytes of memory, errors made on purpose, much work. Of the
# lessons whose kernels only move blocks, these alone are checked: their engines run the kernels of the
# lessons before. The race check is hundreds of times slower than the rest, so it also leaves out
# whole generations (the other tools run them), sweeps over shapes that differ in nothing a race
# depends on, and the tests of runs. It leaves out runs everywhere: lane 0 hands a slot back for its
# warp, which it does not count. What it says of spread does not matter: two warps meet there at a
# barrier of their own, which it does not know, and without spread it crashes at the next kernel.
readonly not_sanitized='*many prompts*,*wherever the slabs are*,*31 elements*,*sticky error*,*out of memory*,*2048 rows*,*however often*,*replayed from a graph*,*the engine gives*,windows: every head*,windows: what lies before them leaves no trace'
readonly not_raced='*every lesson*,*golden*GQA 2*,*golden*GQA 8*,*what unused slots*,*n samples*,*beam search finds*,*large uneven*,*one long*,*takes several heads*,*17 to 500 rows*,*every length around*,*FP8 pages: uneven*'

a_core_is_free() {
  while [ "$(jobs -rp | wc -l)" -ge $(($(nproc) * 3 / 4 + 1)) ]; do wait -n; done
}

# racecheck PROGRAM ARGUMENTS...: the program's exit code, or 9 if there is a race.
racecheck() {
  compute-sanitizer --tool racecheck --print-limit 100000 --kernel-name-exclude kns=run_queries "$@" |
    awk '!/Race reported.*spread_queries/; /Race reported/ && !/spread_queries/ {races = 1} END {exit races ? 9 : 0}'
  local codes=("${PIPESTATUS[@]}")
  [ "${codes[0]}" -ne 0 ] && return "${codes[0]}"
  return "${codes[1]}"
}
export -f racecheck

sanitize() {
  local tool=$1 program=$2 left_out=$not_sanitized cases=()
  local command=(compute-sanitizer --tool "$tool" --error-exitcode 9)
  if [ "$tool" = racecheck ]; then
    left_out=$left_out,$not_raced
    command=(bash -c 'racecheck "$@"' racecheck)
  fi
  [[ $program == lesson0[6-9]* || $program == lesson1* ]] && cases=(--test-suite=kernel)
  step "$tool $program" 400 "${command[@]}" "$bundle/bin/$program" "${cases[@]}" --test-case-exclude="$left_out"
}

# measure PROGRAM LIMIT_S JSON NAME ARGUMENTS...: one benchmark, if it is wanted; shows what it prints.
measure() {
  wanted "$1" || return 0
  step "$4" "$2" "$bundle/bin/$1" "${@:5}" --json "$logs/$3.json"
  cat "$logs/${4// /_}.log"
}

# Benchmarks at Qwen3-0.6B's shape: 1.2 GB of random weights, made here and removed.
bench() {
  local folder on_model
  folder=$(mktemp -d)
  on_model=(--device cuda --model "$folder/model")
  step "random model" 120 "$bundle/bin/make_model" --like qwen3-0.6b --out "$folder/model"
  measure bench_cuda 200 bench_cuda bench_cuda --model "$folder/model"
  measure lesson06_bench 120 lesson06_cuda hits "${on_model[@]}"
  measure lesson08_bench 200 lesson08_cuda serving "${on_model[@]}" --serve
  if wanted serve_bench && [ -x "$bundle/bin/serve" ]; then
    step "over HTTP" 240 tools/serve_bench.py --bin "$bundle/bin" "${on_model[@]}" --json "$logs/serve_cuda.json"
    cat "$logs/over_HTTP.log"
  fi
  measure lesson09_bench 240 lesson09_cuda guesses "${on_model[@]}"
  measure lesson10_bench 60 lesson10_cuda groups --device cuda
  measure lesson11_bench 120 lesson11_cuda tiers "${on_model[@]}"
  measure lesson13_bench 120 lesson13_cuda "a store" "${on_model[@]}" --longest 4096
  measure lesson12_bench 60 lesson12_cuda checksums --device cuda
  measure lesson14_bench 200 lesson14_serving "FP8 in a server" "${on_model[@]}" --serve
  rm -rf "$folder"
  measure lesson14_bench 60 lesson14_cuda "FP8 pages" --device cuda
  measure lesson04_bench 200 lesson04 "paged attention" --device cuda
  measure lesson04_road_bench 200 lesson04_road lesson04_road
  measure kernels_road_bench 200 kernels_road kernels_road
}

run() {
  if [ ! -d "$bundle/bin" ]; then
    [ -f "$bundle.tar.xz" ] || die "no build/gpu_check.tar.xz here; run tools/gpu_check.sh pack first"
    mkdir -p "$bundle" && python3 -m tarfile -e "$bundle.tar.xz" "$bundle" || die "build/gpu_check.tar.xz is damaged"
  fi
  export LD_LIBRARY_PATH=$bundle/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  logs=$bundle/logs
  mkdir -p "$logs"
  : >"$logs/table"
  link_source_dir
  "$bundle/bin/device_gpu_test" >"$logs/gpu.log" 2>&1
  [ $? -ne 77 ] || die "$(sed -n 's/^SKIP: //p' "$logs/gpu.log")"
  local program tool tests kernel
  tests=$(gpu_programs "$bundle/bin")
  if [ "$only" = . ] && [ -f "$build/CTestTestfile.cmake" ] && command -v ctest >/dev/null &&
    grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$here" "$build/CMakeCache.txt"; then
    step "ctest -L gpu" 600 ctest --test-dir "$build" -L gpu --no-tests=error --output-on-failure
    tests=$(grep road <<<"$tests")  # the others: ctest does not know them
  fi
  for program in $tests; do
    step "$program" 300 "$bundle/bin/$program"
  done
  if command -v compute-sanitizer >/dev/null; then
    # Several at once: a sanitizer keeps a core busy and leaves the GPU idle.
    for program in $(gpu_programs "$bundle/bin" | grep -v ladder); do
      for tool in racecheck memcheck initcheck; do
        [[ $program == *fault* ]] && continue
        a_core_is_free
        sanitize "$tool" "$program" &
      done
    done
    for kernel in fast plain; do  # the ladder's tests would take an hour
      a_core_is_free
      step "memcheck ladder --kernel $kernel" 240 compute-sanitizer --error-exitcode 9 "$bundle/bin/ladder" \
        --device cuda --model models/tiny --workload simple --max-tokens 3 --kernel "$kernel" &
    done
    wait
  else
    echo "compute-sanitizer: FAILED: not found; it comes with the CUDA toolkit" >>"$logs/table"
  fi
  step "ladder on CUDA" 120 "$bundle/bin/ladder" --device cuda --model models/tiny
  cat "$logs/ladder_on_CUDA.log"
  bench

  [ -z "${GPU_CHECK_OUT:-}" ] || cp "$logs"/*.json "$GPU_CHECK_OUT"
  echo
  cat "$logs/table"
  if grep -q FAILED "$logs/table"; then
    echo "FAILED; logs are in $logs"
    return 1
  fi
  echo "all passed"
}

case ${1:-} in
  pack) pack ;;
  run) run ;;
  *)
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$here/tools/gpu_check.sh"
    exit 2
    ;;
esac
