#!/usr/bin/env bash
# A real window under Xvfb, clicked with xdotool: the pool is what the clicks say, and the picture is
# the one that is drawn without a window.
#   window_test.sh VIZ
set -euo pipefail
viz=$1
for tool in Xvfb xdotool import compare; do
  command -v "$tool" >/dev/null || {
    echo "SKIP: $tool is not installed (packages xvfb, xdotool, imagemagick, libgl1-mesa-dri)"
    exit 0
  }
done
folder=$(mktemp -d)
server= window=
cleanup() {
  [ -z "$window" ] || kill "$window" 2>/dev/null || true
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$folder"
}
trap cleanup EXIT
fail() {
  echo "FAILED: $*"
  sed 's/^/  viz: /' "$folder/out" "$folder/err" 2>/dev/null | tail -5
  exit 1
}

# wait_for SECONDS COMMAND...: until the command holds.
wait_for() {
  local tries=$(($1 * 10))
  shift
  until "$@"; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || return 1
    sleep 0.1
  done
}

Xvfb -displayfd 3 -screen 0 1280x800x24 3>"$folder/display" 2>/dev/null &
server=$!
wait_for 20 test -s "$folder/display" || fail "Xvfb did not start"
DISPLAY=:$(cat "$folder/display")
export DISPLAY LIBGL_ALWAYS_SOFTWARE=1
unset WAYLAND_DISPLAY
"$viz" 5 --theme dark --rects --no-motion --size 1280x800 --scale 1 >"$folder/out" 2>"$folder/err" &
window=$!

frames() { grep -c '^FRAME' "$folder/out" || true; }
has_frames() { [ "$(frames)" -ge "$1" ]; }
wait_for 60 has_frames 1 || {
  if grep -q 'OpenGL' "$folder/err"; then
    echo "SKIP: no OpenGL 3.3 under Xvfb: $(cat "$folder/err")"
    exit 0
  fi
  fail "no frame was drawn"
}

place() { # of a control, as the last frame had it
  awk -v name="$1" '$1 == "RECT" { n = $4; for (i = 5; i <= NF; ++i) n = n " " $i
    if (n == name) { x = $2; y = $3 } } END { print x, y }' "$folder/out"
}
click() {
  local seen x y
  seen=$(frames)
  read -r x y < <(place "$1")
  [ -n "$x" ] || fail "there is no control '$1'"
  xdotool mousemove "$x" "$y" sleep 0.2 mousedown 1 sleep 0.2 mouseup 1
  wait_for 20 has_frames $((seen + 1)) || fail "the click on '$1' did nothing"
}
# A is there, with 6 tokens.
click "A/append 16"
click "A/fork 3"
click more
# On a slow machine buttons go down and up between two frames, in several places.
read -r x y < <(place "all/append 1")
read -r there_x there_y < <(place "tab 05")
seen=$(frames)
kill -STOP "$window"
xdotool mousemove "$x" "$y"
for _ in 1 2 3 4; do
  xdotool mousedown 1 mouseup 1
done
xdotool mousemove "$there_x" "$there_y"
sleep 0.2
kill -CONT "$window"
wait_for 20 has_frames $((seen + 1)) || fail "the four clicks did nothing"
click more # the picture has the window's width again
rest_before=$(grep '^REST' "$folder/out" | tail -1 || true)
# On a slow machine keys go down and up between two frames: the command line sees them nevertheless.
kill -STOP "$window"
xdotool type --delay 5 ':append D 1'
xdotool key Return
xdotool type --delay 5 'append D 4'
xdotool key Return Escape Left # which takes it back
sleep 0.2
kill -CONT "$window"
xdotool mousemove 1279 799
# Where nothing moves nothing is drawn. The window says when it comes to rest, and after how many frames; on a slow machine
# that takes a while. From then on no frame is drawn, and the loop wakes up a few times a second: in ticks of processor time,
# 100 a second.
ticks() { awk '{ print $14 + $15 }' "/proc/$window/stat"; }
rested() { grep '^REST' "$folder/out" | tail -1; }
rests() { # for a second, at least
  local last
  last=$(rested)
  sleep 1.2
  [ -n "$last" ] && [ "$last" != "$rest_before" ] && [ "$last" = "$(rested)" ]
}
end=$((SECONDS + 60))
until rests; do
  [ $SECONDS -lt $end ] || fail "it draws although nothing moves: it never rests"
done
import -window root "$folder/window.png"
before=$(ticks) last=$(rested)
sleep 4
used=$(($(ticks) - before))
echo "at rest: $used ticks in 4 seconds"
[ "$last" = "$(rested)" ] || fail "it draws although nothing moves"
[ "$used" -le 20 ] || fail "it is busy although nothing moves"
kill -INT "$window"
wait "$window" || true
window=
grep -q '^END total=16 free=3 used=13 shared=5 sequences=4 as_copies=28 ' "$folder/out" ||
  fail "clicks and keys left another pool: $(tail -1 "$folder/out")"

printf 'page 05\nnew A\nwrite A "The sky was dark and it"\nappend A 16\nfork A B C D\n%bappend D 1\n' 'append all 1\nappend all 1\nappend all 1\nappend all 1\n' >"$folder/clicks.txt"
"$viz" --headless --theme dark --script "$folder/clicks.txt" --size 1280x800 --screenshot "$folder/headless.png" \
  >/dev/null || fail "the same without a window"
# Only the picture: what is around it tells of the script. Letters differ at their edges.
for picture in window headless; do
  convert "$folder/$picture.png" -crop 1260x590+0+44 +repage "$folder/$picture.crop.png"
done
different=$(compare -metric AE -fuzz 25% "$folder/window.crop.png" "$folder/headless.crop.png" null: \
  2>&1 || true)
echo "pixels that differ: $different of $((1260 * 590))"
[ "${different%%.*}" -lt $((1260 * 590 / 100)) ] || fail "the window shows another picture"
