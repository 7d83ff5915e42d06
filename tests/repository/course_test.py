#!/usr/bin/env python3
"""./course without building anything of the course: its lists, its help, its completion, and what it refuses; a build
that is slow, that waits, that is stopped; and what other programs read: the workflows, an editor's tasks."""
import fcntl
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
COURSE = ROOT / "course"
NO_BUILD = {"COURSE_BUILD": "/proc/none"}
sys.path.insert(0, str(ROOT / "tools"))
import course  # noqa: E402
import course_arguments  # noqa: E402
import course_builds  # noqa: E402
import planted_bugs  # noqa: E402

SAYS = """\
                      | ./course help +all commands and lessons
help                  | lessons/02_flat_cache/README.md
--help                | ./course test \\[N\\]
--version             | Page by Page, [1-9][0-9]* lessons, commit
test 5 --help         | ^usage: ./course test 5 \\[options\\]\\n(.*\\n)+  --long
exercise help         | again whenever a file is saved
help exercise 3       | again whenever a file is saved
kernel --help         | two threads at one place with nothing that orders them
help run              | explains them once it is built: ./course build ladder$
run 05_refcount_cow -h | ^  --beams N\\n(.*\\n)+The program explains them once it is built: ./course build lesson05$
run paged_blocks -h   | explains them once it is built: ./course build lesson03$
run 5 --help          | ^options:\\n  --mine +your files
completion words ex   | ^exercise$
completion words run '' | ^12$
completion words viz '' | ^warp$
completion words help '' | ^replay$
completion words exercise 3 --w | ^--watch$
completion words run 5 --be | ^--beams$
completion words serve --role '' | ^both\\nprefill\\ndecode$
bench 5 --help        | ^  --longest N\\n
bench --help          | ^  4 --road
setup -h              | ^result +packages
help build            | ^result +programs
web -h                | ^result +build/
help site             | ^example +./course web
pictures --help       | ^result +SVG"""

REFUSED = """\
fly                   | error: unknown command 'fly'; ./course help lists
install               | error: unknown command 'install'; ./course help lists
RUN                   | unknown command 'RUN'; did you mean ./course run\\?
--hlep                | did you mean ./course help\\?
help rum              | did you mean ./course run\\?
5                     | did you mean ./course run 5\\?
viz 99                | error: there is no lesson 99
run --repair          | which lesson's
run --devcie cpu      | ^error: unknown option '--devcie'; did you mean --device\\? ./course run --help lists the options$
run 5 --mine --bemas=2 | unknown option '--bemas'; did you mean --beams\\? ./course run 5 --help
run 5 6               | error: unexpected '6'; a text of several words needs quotes; ./course run 5 --help
run 5 --prompt --max-tokens --max-tokens many | error: --max-tokens: 'many' is not allowed, wanted a number;
run 5 --device gpu    | error: --device: 'gpu' is not allowed, wanted cpu, cuda or auto; ./course run 5 --help
run 5 --model         | error: --model: a value is missing, wanted DIR;
run 5 --model /no/such | ^error: --model /no/such: no such folder; wanted one with a model's config.json$
viz 5 6               | error: unexpected '6'; a text of several words needs quotes; ./course viz 5 --help
run 5 --max 8         | unknown option '--max'; did you mean --max-tokens\\?
run 04_paged          | error: run: found '04_paged', wanted .*; did you mean 04_paged_attention\\?
viz warp --them light | unknown option '--them'; did you mean --theme\\?
bench 5 --longst 9    | unknown option '--longst'; did you mean --longest\\?
make-model --like big | error: --like: 'big' is not allowed, wanted tiny or qwen3-0.6b;
tokenize --model=/no/such two words | ^error: --model /no/such: no such folder
help run 99           | error: there is no lesson 99
run 18446744073709551617 | error: there is no lesson 18446744073709551617
build -j4             | ^error: build: found '-j4', wanted names of targets
watch                 | ^error: .* ./course watch instruments/watch/example.kvevents; or a server's events: ./course serve --kv
replay nofile         | ^error: replay: found no file nofile, wanted a trace
watch nofile          | ^error: watch: found no file nofile, wanted a recording
replay                | ^error: .* ./course replay instruments/replay/example.jsonl$
run rum               | found 'rum', wanted a lesson's number or name; ./course help lists
viz pagd_blocks       | found 'pagd_blocks', wanted .*; did you mean paged_blocks\\?
test lnog             | found 'lnog', wanted a lesson's number or name; did you mean --long\\?
test 5 --lnog         | unknown option '--lnog'; did you mean --long\\?
test 5 -R             | error: -R: a value is missing, wanted a pattern
test -L cpu abc       | error: unexpected 'abc'; ./course test 5
bench 3 --road        | error: ./course bench 3: no road here
bench abc             | found 'abc', wanted a lesson's number or name, or gpu;
kernel                | which lesson's\\? For example: ./course kernel 3;
exercise --watch      | which lesson's\\? For example: ./course exercise 3;
kernel 3 --race       | unknown option '--race'; did you mean --races\\?
kernel 3 --races --bounds | --bounds excludes --races
site --sevre          | unknown option '--sevre'; did you mean --serve\\?
planted --only nothing_here | no planted bug has .nothing_here.
exercise 5 --hnt      | unknown option '--hnt'; did you mean --hint\\? ./course exercise --help
exercise 3 --reset    | --reset: a value is missing, wanted a file of yours, or all
stale --foo           | stale: found '--foo', wanted nothing after it
web --out             | --out: a value is missing, wanted DIR
completion fish       | wanted bash or zsh
run 5 --prompt --devcie --n=3 | error: cannot write to /proc/none/
tokenize a            | error: cannot write to /proc/none/
run 1                 | error: cannot write to /proc/none/"""

# Seconds after which each fifth step of a build had ended: of 385 with clang and sanitizers, and of 98 with CUDA.
BUILDS = {385: """3 14 19 28 37 43 48 49 50 53 55 58 63 65 69 72 77 79 84 89 92 96 100 102 107 111 116 121 126 131 135 140 145
149 152 160 165 169 178 185 195 200 205 214 219 223 229 232 237 242 245 251 257 269 281 287 292 295 297 300 301 302 304 305
305 315 319 322 323 327 329 332 342 347 350 356 360""",
          98: "5 49 62 93 109 128 179 194 286 325 386 398 407 425 441 464 481 527 604"}

mistakes = []


def check(is_right, *mistake):
    if not is_right:
        mistakes.append(" ".join(map(str, mistake)))


def run(words, **variables):
    """Exit code and all that is said."""
    words = ["" if word == "''" else word for word in words.split()]
    done = subprocess.run([COURSE, *words], text=True, env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout


def expect(code, pattern, words, **variables):
    got, said = run(words, **variables)
    is_right = got == code and re.search(pattern, said, re.M)
    check(is_right, f"course {words}: {got}, wanted {code} and /{pattern}/\n{said}")


def tool(folder, name, script):
    """A program that does what a line of sh says."""
    path = pathlib.Path(folder, name)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def says_and_refuses():
    """Nothing is built or configured for any of it."""
    for table, code in ((SAYS, 0), (REFUSED, 2)):
        for line in table.splitlines():
            words, pattern = line.split(" | ")
            expect(code, pattern, words, **NO_BUILD)
    expect(2, "COURSE_PRESET: found 'bogus', wanted default, cpu", "build tests", COURSE_PRESET="bogus")
    with tempfile.TemporaryDirectory() as folder:  # with a GPU, and without one
        for code, said in ((1, "found no GPU"), (0, "cannot write to /proc/none")):
            tool(folder, "nvidia-smi", f"exit {code}")
            expect(2, f"^error: .*{said}", "run 5 --device cuda", PATH=f"{folder}:{os.environ['PATH']}", **NO_BUILD)
    for display, said in (("", "found no display"), (":0", "cannot write to /proc/none")):
        expect(2, f"^error: .*{said}", "viz 5", DISPLAY=display, WAYLAND_DISPLAY="", **NO_BUILD)
    expect(2, "cannot write to /proc/none", "viz 5 --commands", DISPLAY="", WAYLAND_DISPLAY="", **NO_BUILD)
    expect(2, "COURSE_JOBS: found '0', wanted a number", "build tests", COURSE_JOBS="0")
    lines = run("")[1].split("\n\nExercises:")[0].splitlines()
    check(len(lines) <= 12, f"./course alone prints {len(lines)} lines, wanted 12")


def on_a_terminal(term):
    """Colour is where it can be seen."""
    said = b""

    def keep(terminal):
        nonlocal said
        said += (read := os.read(terminal, 1000))
        return read

    os.environ.update(TERM=term, NO_COLOR="")
    pty.spawn([str(COURSE), "fly"], keep, lambda _: b"")
    check(said.startswith(b"error:" if term == "dumb" else b"\033[31merror:"), f"course fly, TERM={term}: {said}")


def moves_in(columns):
    """A line that moves ends where the terminal does."""
    terminal, other_end = pty.openpty()
    fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with open(other_end, "w", encoding="utf-8") as stream:
        course_arguments.move("x" * 200, stream)
        said = os.read(terminal, 1000).decode()
    os.close(terminal)
    check(said.count("x") == columns - 1, f"a line that moves, {columns} columns: {said}")


def fits(columns, *more):
    """Lines end where the terminal does."""
    for words in ("", "help", "run -h", "watch -h", "site -h", "exercise -h", "repair -h", "kernel -h", "planted -h", "build -h", "test -h", *more):
        said = run(words, COLUMNS=str(columns), **NO_BUILD)[1]
        check(max(map(len, said.splitlines())) <= columns, f"course {words}: more than {columns} columns\n{said}")
    os.environ["COLUMNS"] = str(columns)
    for bug in planted_bugs.bugs.bugs_of(ROOT / "lessons/05_refcount_cow/test/bugs.txt"):
        shown = planted_bugs.shown(bug, "lesson05: a test with a name of many words " * 2)
        check(max(map(len, shown.splitlines())) <= columns, f"course planted: more than {columns} columns\n{shown}")
    del os.environ["COLUMNS"]


def one_form():
    """Every help, into a pipe: what to type, one sentence, and lines that most terminals have room for."""
    for name in course.COMMANDS:
        said = run(f"{name} --help", **NO_BUILD)[1]
        check(re.match(rf"usage: ./course {name}\b.*\n\n[A-Z].*", said), f"course {name} --help: another form\n{said}")
        check(max(map(len, said.splitlines())) <= 80, f"course {name} --help: more than 80 columns\n{said}")


def completes():
    """In a shell what is typed."""
    for shell, begin in (("bash", ""), ("zsh", "emulate ksh; ")):
        typed = f"COMP_WORDS=('{COURSE}' exercise 3 --wa) COMP_CWORD=3"
        script = f"source <('{COURSE}' completion {shell}); {begin}{typed}; _course; echo \"${{COMPREPLY[*]}}\""
        if shutil.which(shell):
            said = subprocess.run([shell, "-c", script], text=True, stdout=subprocess.PIPE, check=False).stdout
            check("--watch" in said, f"completion in {shell}: '{said}', wanted --watch for --wa")


def without_python(folder):
    """Where there is no Python the shell part says how to get it."""
    folder.mkdir()
    for name in ("dirname", "readlink", "sh"):
        (folder / name).symlink_to(shutil.which(name))
    expect(2, "error: .*Install it and run this again", "run 1", PATH=str(folder))
    tool(folder, "id", "echo 1000")
    tool(folder, "dpkg-query", "")
    expect(2, "error: .*run this again: sudo apt-get install -y python3", "run 1", PATH=str(folder))


def builds(folder):
    """A build folder of our own: with a program, which is asked, and something to build that takes three seconds."""
    folder.mkdir()
    (folder / "build.ninja").write_text("rule slow\n  command = sleep 3 && touch $out\nbuild slow: slow\n")
    (folder / "CMakeCache.txt").write_text("KV_WINGS:BOOL=ON\n")
    os.environ.update(COURSE_BUILD=str(folder.parent), COURSE_PRESET="default")
    (folder / "bin").mkdir()
    tool(folder / "bin", "lesson05", "printf 'usage: %s\n\noptions:\n  --own' \"$COURSE_COMMAND\"")
    expect(0, "^usage: ./course run 5\n\noptions:\n  --mine .*\n(.*\n)+  --own", "run 5 --help")
    expect(0, "^--own$", "completion words run 5 --o")
    expect(2, "unknown target 'lesson05'|error: the build failed", "run 5 --own")  # no list of options refuses it
    expect(2, "unknown target 'nothing'; for example ./course build lesson05", "build nothing")
    expect(2, "unknown target 'slwo'; did you mean slow\\?", "build slwo")
    with open(folder / "course.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build, said = start()
        check(re.fullmatch("another ./course builds in .*/default; waiting\n", said), "course build, locked:", said)
        expect(2, "^error: unknown option '--devcie'; did you mean --device\\?", "run 5 --devcie cpu")
    said = build.stderr.readline()
    check(said == "Building slow\n" and not (folder / "slow").exists(), "course build: it has waited, then says", said)
    build.communicate()
    check(build.returncode == 0 and (folder / "slow").exists(), "course build: exit code", build.returncode)
    (folder / "slow").unlink()
    for send, number, code in ((os.killpg, signal.SIGINT, 130), (os.kill, signal.SIGTERM, 143)):  # Ctrl-C reaches all
        build, _ = start()
        send(build.pid, number)
        said = build.communicate()[1]
        check(build.returncode == code and "error" not in said, f"course build, {number}: {build.returncode}, {said}")
        check(("Stopped" in said) == (code == 130), f"course build, {number}: {said}")
    time.sleep(3)
    check(not (folder / "slow").exists(), "course build: a signal does not end what it builds")


def says_how_long():
    """Of builds that were recorded: what is said is about right, and hardly rises."""
    os.environ["COURSE_JOBS"] = "2"
    for steps, ends in BUILDS.items():
        ends = list(map(int, ends.split()))
        left = course_builds.TimeLeft()
        left.words(0, 0, steps, "")
        said = []
        for i, seconds in enumerate(ends, 1):
            left.words(seconds, 5 * i, steps, "")
            said.append(left.minutes)
        rise = sum(max(later - earlier, 0) for earlier, later in zip(said, said[1:]))
        wrong = sum(abs(60 * minutes - (ends[-1] - seconds)) for minutes, seconds in zip(said, ends)) / len(ends)
        check(rise <= 1 and wrong < ends[-1] / 3, f"{steps} steps: off by {wrong} s, and it rises by {rise} minutes: {said}")
    del os.environ["COURSE_JOBS"]


def names_files():
    """A step of a build has the name that a learner knows."""
    for step, said in (("Building CXX object lessons/05_x/CMakeFiles/kv_lesson05.dir/page/page.cpp.o", "lessons/05_x/page/page.cpp"),
                       ("Linking CXX executable bin/lesson05", "Linking CXX executable bin/lesson05")):
        found = course_builds.source_of(step)
        check(found == said, f"'{step}' is called '{found}', wanted '{said}'")


def start():
    """A build that has begun, and what it says first."""
    build = subprocess.Popen([COURSE, "build", "slow"], stderr=subprocess.PIPE, text=True, start_new_session=True)
    return build, build.stderr.readline()


def main():
    for name in ("COURSE_BUILD", "COURSE_PRESET", "COURSE_JOBS", "COLUMNS"):
        os.environ.pop(name, None)
    says_and_refuses()
    on_a_terminal("dumb")
    on_a_terminal("xterm")
    moves_in(60)
    fits(60)
    fits(80, "stale")
    one_form()
    completes()
    says_how_long()
    names_files()
    with tempfile.TemporaryDirectory() as folder:
        linked = pathlib.Path(folder, "linked")
        linked.symlink_to(COURSE)
        closed = subprocess.run(f"'{COURSE}' help >&-", shell=True, text=True, stderr=subprocess.PIPE, check=False)
        check(closed.returncode == 2 and closed.stderr.count("\n") == 1, "course help, output closed:", closed.stderr)
        check(subprocess.run([linked, "--version"], stdout=subprocess.DEVNULL, check=False).returncode == 0, "a link")
        without_python(pathlib.Path(folder, "bin"))
        builds(pathlib.Path(folder, "default"))
    check(subprocess.run([sys.executable, ROOT / ".github/check.py"], check=False).returncode == 0, ".github/check.py")
    print(*mistakes, f"course: {len(mistakes)} mistakes", sep="\n")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
