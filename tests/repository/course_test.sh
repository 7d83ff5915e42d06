#!/usr/bin/env bash
# ./course without building anything: its list, its help, its completion, and what it refuses; and files that other
# programs read: the workflows, the editor's tasks.
set -u
course=$1
fails=0
expect() { # expect CODE PATTERN ARGS...
  local code=$1 pattern=$2
  shift 2
  local out got
  out=$("$course" "$@" 2>&1)
  got=$?
  if [ "$got" -ne "$code" ] || ! grep -qE -- "$pattern" <<<"$out"; then
    printf 'course %s: exit %s, wanted %s and /%s/\n%s\n' "$*" "$got" "$code" "$pattern" "$out"
    fails=1
  fi
}
expect 0 'lessons/01_no_cache/README.md'
expect 0 'lessons/02_flat_cache/README.md' help
expect 0 './course test \[N\]' --help
expect 0 'Begin with +./course run'
expect 0 'Page by Page, [0-9]+ lessons, ' --version
expect 0 '^  ./course test ' help test
expect 2 "error: unknown command 'fly'" help fly
expect 0 'again whenever a file is saved' help exercise 3
expect 0 'complete .*_course course' completion bash
expect 0 'bashcompinit' completion zsh
expect 2 'wanted bash or zsh' completion fish
expect 0 '^exercise$' completion words ex
expect 0 '^12$' completion words run ''
expect 0 '^--watch$' completion words exercise 3 --w
expect 0 '^gpu$' completion words kernel ''
expect 0 '^cuda$' completion words run 3 --device ''
expect 0 '^zsh$' completion words completion ''
expect 0 '^replay$' completion words help ''
expect 0 '^help$' completion words he
expect 0 '^warp$' completion words viz ''
expect 0 '^gpu$' completion words bench ''
expect 0 '^light$' completion words viz 3 --theme ''
expect 0 '^plain$' completion words run --kernel ''
expect 0 '^priority$' completion words run 8 --order ''
expect 0 '^fp8$' completion words plan --kv-dtype ''
expect 0 '^llm-d$' completion words route --policy ''
expect 0 '^Gemma. 3. 27B$' completion words plan --model ''
expect 0 '^kv_blocks.cu$' completion words exercise 3 --reset ''
expect 0 '^--long$' completion words test 3 --
if bash -c "source <('$course' completion bash); COMP_WORDS=('$course' exercise 3 --wa) COMP_CWORD=3; _course; [ \"\${COMPREPLY[*]}\" != --watch ]"; then
  echo "completion: wanted --watch for --wa"
  fails=1
fi
if command -v zsh >/dev/null; then
  words=$(zsh -fc "source <('$course' completion zsh); emulate ksh; COMP_WORDS=('$course' exercise 3 --wa) COMP_CWORD=3; _course; echo \"\${COMPREPLY[*]}\"")
  [[ $words = *--watch* ]] || { echo "completion in zsh: '$words', wanted --watch for --wa" && fails=1; }
else
  expect 0 ':1:[$]COMP_CWORD' completion zsh # zsh takes a letter after the colon for a modifier
fi
for words in "" "site --help" "help exercise" "help kernel" "planted --help" "stale --help" "help build" "help web"; do
  for columns in 60 80; do
    if COLUMNS=$columns "$course" $words | grep -n "^.\{$((columns + 1))\}"; then
      echo "course $words: lines of more than $columns columns"
      fails=1
    fi
  done
done
export COLUMNS=80
if { "$course" stale; python3 -c "import sys
sys.path.insert(0, '$(dirname "$course")/tools')
import planted_bugs as planted
for bug in planted.bugs_of(planted.ROOT / 'lessons/05_refcount_cow/test/planted.txt'):
    print(bug.shown('lesson05: a test with a name of many words ' * 2))"; } | grep -n "^.\{81\}"; then
  echo "course stale, planted: lines of more than 80 columns"
  fails=1
fi
unset COLUMNS
for command in setup build test bench stale web site pictures completion; do # none of them does what it explains
  COURSE_BUILD=/proc/none expect 0 "^(  )?./course $command " $command --help
done
for command in setup build web pictures site; do # where the result is, and something to type
  expect 0 '^result +(packages|programs|build/|SVG)' $command -h
  expect 0 '^example +./course ' help $command
done
COURSE_BUILD=/proc/none expect 0 'all tests, or those of lesson N' test 5 --help
# Completion knows each command that the list names, and each option that a command's help names.
for command in $("$course" completion words ''); do
  named=$(COURSE_BUILD=/proc/none "$course" help "$command" 2>/dev/null | grep -oE -e '(^|[ (])--[a-z][a-z-]*' | tr -d ' (' | sort -u)
  case $command in
    help | version) continue ;;
    viz) named+=$'\n--mine' ;; # which its program does not know
    stale) named= ;; # its text names an option of something else
  esac
  lacking=$(grep -vxF -e --help -e "$("$course" completion words "$command" --)" <<<"$named" | tr '\n' ' ')
  [ -z "${lacking// /}" ] || { echo "completion: ./course $command lacks $lacking" && fails=1; }
done
expect 2 "error: unknown command 'fly'; ./course alone" fly
for term in dumb xterm; do
  said=$(NO_COLOR='' TERM=$term python3 -c 'import pty, sys; pty.spawn(sys.argv[1:])' "$course" fly </dev/null)
  [[ $term,$said = dumb,error:* || $term,$said = xterm,$'\e'* ]] || { echo "course fly on TERM=$term: $said" && fails=1; }
done
expect 2 "error: unknown command 'install'; ./course alone" install # a guess must be near
expect 2 "error: unknown command 'tset'; did you mean ./course test\?" tset
expect 2 "error: unknown command 'RUN'; did you mean ./course run\?" RUN
expect 2 "error: unknown command '5'; did you mean ./course run 5\?" 5
expect 2 "error: unknown option '--lnog'; did you mean --long\?" test 5 --lnog
expect 2 "error: unexpected 'abc'; ./course test 5" test abc
expect 2 'error: there is no lesson 99' run 99
expect 2 'error: there is no lesson 0' test 0
expect 2 'error: lesson 03 has no road' bench 3 --road
expect 2 'error: there is no lesson 18446744073709551617' run 18446744073709551617
# Nothing of these is built first, nor configured.
for words in "run 99" "viz 99" "kernel 99" "help run 99"; do
  COURSE_BUILD=/proc/none expect 2 'error: there is no lesson 99' $words
done
while IFS=';' read -r -u 3 words pattern; do
  read -ra typed <<<"$words"
  COURSE_BUILD=/proc/none expect 2 "error: .*$pattern" "${typed[@]}"
done 3<<'TXT'
help rum;did you mean ./course run\?
run rum;found 'rum', wanted a lesson's number
viz warpp;did you mean warp\?
viz foo;found 'foo', wanted a lesson's number, warp, watch or an option; ./course lists
run devise;did you mean --device\?
run 5 --threads 2;unknown option '--threads'; ./course run 5 --help
run --max-token 3;did you mean --max-tokens\? ./course run --help
run 5 --beems=3;did you mean --beams\? ./course run 5 --help
viz 3 --scipt x;did you mean --script\?
serve --prot 1;did you mean --port\?
bench 4 --jsn x;did you mean --json\?
kernel 3 --race;did you mean --races\?
site --sevre;did you mean --serve\?
kernel 3 --races --bounds;--bounds excludes --races
kernel 3 --cases;--cases: a value is missing, wanted PATTERN
planted --olny x;unknown option '--olny'; did you mean --only\? ./course planted --help
exercise 5 --hnt;unknown option '--hnt'; did you mean --hint\? ./course exercise --help
run 5 --model /none;--model /none: no such folder; wanted one with
serve --model=/none;--model /none: no such folder
bench abc;bench: found 'abc', wanted a lesson's number or gpu
setup --foo;setup: found '--foo', wanted nothing after it
pictures --foo;pictures: found '--foo', wanted nothing after it
stale --foo;stale: found '--foo', wanted nothing after it
TXT
for words in run "run 5" viz plan; do
  COURSE_BUILD=/proc/none expect 0 'explains its options itself, once it is built: ./course build (ladder|lesson05|viz|plan)$' help $words
done
COURSE_BUILD=/proc/none expect 0 '^Options: --arithmetic --beams ' help run 5 # named, as its lesson's source names them
expect 2 "error: which lesson's\? For example: ./course kernel 3 --races" kernel
expect 2 'error: there is no lesson 99' kernel 99 --races
expect 0 'two threads at one place with nothing that orders them' kernel --help
expect 2 "error: which lesson's" exercise
expect 0 'again whenever a file is saved' exercise help
expect 2 'error: --reset: a value is missing, wanted a file of yours, or all' exercise 3 --reset
expect 2 'error: no planted bug has .nothing_here.' planted --only nothing_here
expect 2 'error: there is no lesson 99' exercise 99
expect 0 'only bugs in CUDA kernels' planted --help
expect 2 'error: web: --out needs a folder' web --out
expect 0 'again whenever a file is saved' exercise 3 --help
COURSE_BUILD=/proc/none expect 2 'error: cannot write to /proc/none' run 1
KV_MODEL=/none COURSE_BUILD=/proc/none expect 2 'error: KV_MODEL=/none: no such folder' run 5
COURSE_PRESET=bogus expect 2 "error: COURSE_PRESET: found 'bogus', wanted default, cpu" build tests
COURSE_JOBS=0 expect 2 "error: COURSE_JOBS: found '0', wanted a number" build tests
# A build folder of our own: what is said of a build that cannot begin, that is slow, and that waits for another one.
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
ln -s "$course" "$temp/linked"
course=$temp/linked expect 0 'Page by Page, [1-9][0-9]* lessons, ' --version
mkdir "$temp/default"
cat >"$temp/default/build.ninja" <<'TXT'
rule slow
  command = sleep 5 && touch $out
build slow: slow
TXT
export COURSE_BUILD=$temp COURSE_PRESET=default
expect 2 "unknown target 'nothing'; for example ./course build lesson05" build nothing
expect 2 "unknown target 'slwo'; did you mean slow\?" build slwo
until_said() { # until_said PATTERN: waits until the build in the background has said it
  for _ in {1..100}; do
    grep -qE -- "$1" "$temp/said" && return
    sleep 0.1
  done
  printf 'course build: no line has /%s/ in\n%s\n' "$1" "$(cat "$temp/said")"
  fails=1
}
"$course" build slow >"$temp/said" 2>&1 &
until_said '^Building slow$'
if [ -e "$temp/default/slow" ]; then
  echo "course build: it says that it builds when it has built"
  fails=1
fi
wait
rm -f "$temp/default/slow"
python3 -c '
import os, signal, subprocess, sys, time
build = subprocess.Popen(sys.argv[1:], stderr=subprocess.PIPE, start_new_session=True, text=True)
build.stderr.readline()  # Building slow
os.killpg(build.pid, signal.SIGINT)  # as Ctrl-C: it reaches all of them
said = build.communicate()[1]
sys.exit(build.returncode != 130 or "Stopped" not in said or "error" in said)' "$course" build slow ||
  { echo "course build: Ctrl-C is no failure of the build, but exit code 130" && fails=1; }
exec 8>"$temp/default/course.lock"
flock 8
"$course" build slow >"$temp/said" 2>&1 8>&- &
until_said '^another ./course builds in .*/default; waiting$'
exec 8>&-
wait $! || { echo "course build: exit code $? after it waited" && fails=1; }
python3 "$(dirname "$course")/.github/check.py" || fails=1
exit $fails
