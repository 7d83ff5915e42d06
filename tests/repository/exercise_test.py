#!/usr/bin/env python3
"""tools/exercise.py over a lesson of two functions: a learner's way through it, with all that goes wrong on it.

The lesson and a build folder are made in a temporary copy; ninja, the compiler and doctest are the real ones."""
import contextlib
import io
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from exercises import runs, solutions  # noqa: E402
LESSON = "../../lessons/01_toy"
OBJECTS = "".join(f"build {name}.o: {rule} {source}\n" for name, rule, source in (
    ("test", "cc", "../../toy_test.cpp"), ("whole", "cc", "../../whole.cpp"), ("mine", "cc", f"{LESSON}/exercise/toy.cpp"),
    ("mine_asan", "cc_asan", f"{LESSON}/exercise/toy.cpp"), ("repair", "cc", f"{LESSON}/repair/toy.cpp"),
    ("both", "cc", "lessons/01_toy/substituted/toy.cpp"), ("all", "cc", "lessons/01_toy/solutions/toy.cpp")))
PROGRAMS = "".join(f"build bin/lesson01_{name}: {rule} {objects}\nbuild lesson01_{name}: phony bin/lesson01_{name}\n" for name, rule, objects in (
    ("exercise", "ld_leak", "mine.o test.o"), ("gpu_exercise", "ld", "mine.o test.o"), ("exercise_asan", "ld_asan", "mine_asan.o test.o"),
    ("exercise_whole", "ld", "mine.o whole.o"), ("gpu_substituted", "ld", "both.o test.o"), ("substituted_whole", "ld", "both.o whole.o"),
    ("solutions", "ld", "all.o test.o"), ("gpu_solutions", "ld", "all.o test.o"), ("repair", "ld", "repair.o test.o"),
    ("gpu_repair", "ld", "repair.o test.o")))
FILES = {
    "lessons/01_toy/toy.h": "#include <vector>\nint largest(const std::vector<int>& v);\nstd::vector<int> twice(std::vector<int> v);\n",
    "lessons/01_toy/toy.cpp": """#include "toy.h"
int largest(const std::vector<int>& v) {
  int most = v[0];
  for (int x : v) most = x > most ? x : most;
  return most;
}

std::vector<int> twice(std::vector<int> v) {
  for (int& x : v) x *= 2;
  return v;
}
""",
    "lessons/01_toy/exercise/README.md": """# Toy

## 1. The largest

`toy.cpp`: `int largest()`

The largest of the numbers.

Hint: Look at each once.

Tests: "the largest of three"

GPU tests: "of one"

## 2. How many times?

`toy.cpp`: `std::vector<int> twice()`

Every number times two.

They keep their order.

<details><summary>Hint</summary> One loop. </details>

GPU tests: "each is doubled"

## Done

You can loop. In vLLM it is a loop, too.
""",
    "lessons/01_toy/test/bugs.txt": """toy.cpp: the smallest
- x > most ? x : most
+ x < most ? x : most
says: found +1
easy: It names the smallest.
""" + "".join(f"\ntoy.cpp: plus {n}\n- x *= 2\n+ x += {n}\nsays: expected +2\n" for n in range(3, 8)) + "hard: It adds.\n",
    "lessons/02_next/README.md": "# Next\n",
    "toy_test.cpp": """#define DOCTEST_CONFIG_IMPLEMENT
#include "common/todo.h"
#include "lessons/01_toy/toy.h"
#include "tests/support/readable.h"
TEST_CASE("the largest of three") { CHECK(largest({1, 3, 2}) == 3); const int four = largest({4, 3}); CHECK(four == 4); }
TEST_CASE("of one" * doctest::test_suite("kernel")) { CHECK(largest({7}) == 7); }
TEST_CASE("each is doubled") { CHECK(twice({1, 2, 3}) == std::vector<int>{2, 4, 6});
  CHECK(largest(twice({30, 60})) == 120); }
int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int failed = context.run();
  return kv::g_todo_reached ? 77 : failed;
}
""",
    "whole.cpp": """#include "lessons/01_toy/toy.h"
#include <cstdio>
int main() {
  if (largest({-5, -2}) == -2) return 0;
  std::printf("error: lesson 01 gives other bits than lesson 02\\n");
  return 1;
}
""",
    "build/simt/build.ninja": f"""flags = -std=c++20 -g1 -I{ROOT} -I../.. -I../../lessons/01_toy
rule cc
  command = c++ $flags -D_GLIBCXX_ASSERTIONS -c $in -o $out
rule cc_asan
  command = c++ $flags -D_GLIBCXX_ASSERTIONS -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined -c $in -o $out
rule ld
  command = c++ $in -o $out
rule ld_leak
  command = c++ -fsanitize=leak $in -o $out
rule ld_asan
  command = c++ -fsanitize=address,undefined $in -o $out
{OBJECTS}{PROGRAMS}""",
    "build/simt/CMakeCache.txt": "KV_CUDA:STRING=OFF\n",
}
for preset in ("simt-tsan", "simt-asan"):
    FILES[f"build/{preset}/build.ninja"] = FILES["build/simt/build.ninja"]
SURVIVORS = """
survivors:
toy.cpp: for (int x : v) most = x<< > => >= >>most ? x : most;
  equal: equal numbers
toy.cpp: for (int x : v) most<< = => = 1 + >>x > most ? x : most;
  equal: of whole numbers that is the same
"""
mistakes = []


def call(*words, code, says=(), silent=()):
    done = subprocess.run([sys.executable, "tools/exercise.py", *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={**os.environ, "KV_EXERCISE_SECONDS": "5"})
    wrong = [f"exit code {done.returncode}, wanted {code}"] if done.returncode != code else []
    wrong += [f"no match of /{pattern}/" for pattern in says if not re.search(pattern, done.stdout)]
    wrong += [f"a match of /{pattern}/" for pattern in silent if re.search(pattern, done.stdout)]
    mistakes.extend(f"{' '.join(words)}: {what} in\n{done.stdout}\n" for what in wrong)


def learn(*words, **wanted):
    call("learn", "lessons/01_toy", "--build", "build/simt", *words, **wanted)


def write(function, body):
    """What a learner types into his file."""
    path = pathlib.Path("lessons/01_toy/exercise/toy.cpp")
    text = re.sub(rf"({function}\([^\n]*\{{\n).*?(\n\}}\n)", lambda m: m[1] + body + m[2], path.read_text(), flags=re.S)
    path.write_text(text)
    return text


def way_through():
    right = FILES["lessons/01_toy/toy.cpp"]
    learn("--undo", code=2, says=["nothing to undo"])
    learn(code=77, says=["Next: step 1, The largest", r"toy\.cpp:\d+", "The largest of the numbers"], silent=["Hint:? Look", "g[+][+]"])
    if "// Step 2: How many times?\n  //\n  // Every number times two.\n  //\n  // They keep" not in pathlib.Path(
            "lessons/01_toy/exercise/toy.cpp").read_text():
        mistakes.append("the skeleton lacks a paragraph of step 2")
    learn("--hnt", code=2, says=["did you mean --hint", "./course exercise --help lists"], silent=["usage:"])
    learn("--hint", code=77, says=["Look at each once", "once more"], silent=["also calls", "A statement of it"])
    learn("--hint", "--hint", code=77, silent=["A statement of it"])
    learn("--hint", code=77, says=["A statement of it that yours lacks.*\n +int most = v\\[0\\];"], silent=["once more"])
    learn("--diff", code=2, says=["no step passes yet"])
    write("largest", "  return v[0]")
    learn(code=1, says=[r"lessons/01_toy/exercise/toy\.cpp:\d+:\d+: error: expected", "does not compile"], silent=["FAILED", "-std="])
    write("largest", "  // KV_TODO(\"largest\"): better than the first?\n  return v[0];")
    learn(code=1, says=["the largest of three", r"toy_test\.cpp:5", "found +1", "expected +3", "1 of the step's 2 tests"], silent=["Look at"])
    learn(code=1, says=["Look at each once"])
    write("largest", "  for (volatile bool on = true; on;)\n    if (v.empty()) return 1;")
    learn(code=1, says=["did not end within 5 s: a loop", r"toy\.cpp:\d+, in largest", r"toy_test\.cpp:5", "None of the step's 2 tests passes"])
    write("largest", "  while (v.size() > 0) sleep(1);\n  return 1;")
    path = pathlib.Path("lessons/01_toy/exercise/toy.cpp")
    path.write_text("#include <unistd.h>\n" + path.read_text())
    learn(code=1, says=["did not end within 5 s: it waits for something"], silent=["loop"])
    write("largest", "  volatile int* p = nullptr;\n  return *p;")
    learn(code=1, says=[r"(an address where no memory is|null pointer)(.|\n)*exercise/toy\.cpp:\d+, in largest", r"toy_test\.cpp:5\n"])
    write("largest", "  volatile int* p = nullptr;\n  return v[0] == 4 ? *p : v[0];")
    learn(code=1, says=[r"found +1\n(.|\n)*Sanitizers, which end a test at the first such mistake, say:\n(.*\n)*.*exercise/toy\.cpp:\d+, in largest"])
    write("largest", "  if (v.size() == 2) throw v[0];\n  return v[1];")
    learn(code=1, says=[r"ended by an exception:\n(.*\n)*.*The last check before it is in line 5 of toy_test[.]cpp"])
    write("largest", "  std::vector<int> w;\n  return v[0] == 7 ? 7 : w.front();")
    learn(code=1, says=[r"front\(?\)? of the standard library needs !this->empty", r"toy\.cpp:\d+, in largest"])
    write("largest", "  static int* last;\n  last = new int(v[0]);\n  int most = *last;\n  last = nullptr;\n  for (int x : v) most = x > most ? x : most;\n  return most;")
    learn(code=1, says=[r"A leak: 4 bytes.*\n.*exercise/toy\.cpp:\d+, in largest"])
    write("largest", re.search(r"largest.*?\{\n(.*?)\n\}", right, re.S)[1])
    learn(code=77, says=["Step 1 passes", "Step 1 counts when --races", "Next: step 2, How many times(.|\n)*Lesson 1  [?][.]  0 of 2 steps pass; [?] : --races"])
    learn("--races", code=0, says=["1 of 1 pass"])
    learn("--bounds", code=0)
    learn(code=77, says=["Lesson 1  #[.]  1 of 2 steps pass"], silent=["[?] :"])
    file = pathlib.Path("lessons/01_toy/exercise/toy.cpp")
    file.write_text(file.read_text() + "int\n")
    learn(code=1, says=["does not compile"], silent=["Next:"])
    file.write_text(file.read_text().removesuffix("int\n"))
    learn("--diff", "1", code=0, says=["letter for letter"])
    learn("--diff", "2", code=2, says=["does not pass yet"])
    first = write("twice", "  v.at(1) = 9;\n  return v;")
    learn(code=1, says=["index +0 +1 +2", "found +1 +9 +3", r"expected +2 +4 +6\n +\^", "no other test", "--races", r"How many times\?\n"], silent=["Step 1", "look there"])
    write("twice", "  int* p = new int(1);\n  delete p;\n  delete p;\n  return v;")
    learn(code=1, says=["the heap is damaged(.|\n)*In which line of yours: ./course exercise 1 --bounds"])
    write("twice", "  v.at(1) = 9;\n  return v;")
    learn("--reset", "gone.cpp", code=2, says=["toy.cpp"])
    learn("--reset", "toy.cpp", code=0)
    learn("--reset", "toy.cpp", code=0)
    learn(code=77, says=["Next: step 1"])
    learn("--reset", "lessons/01_toy/toy.cpp", code=2, says=["no file of this exercise"])
    learn("--undo", code=0)
    if pathlib.Path("lessons/01_toy/exercise/toy.cpp").read_text() != first:
        mistakes.append("--undo after --reset of what was written, and of what was new: not what was written")
    learn("--redo", code=0)
    learn(code=77, says=["Next: step 1"])
    learn("--redo", code=2, says=["nothing to redo"])
    learn("--undo", code=0)
    if pathlib.Path("lessons/01_toy/exercise/toy.cpp").read_text() != first:
        mistakes.append("--undo after --redo: not what was written")
    call("progress", code=0, says=["1 of 2 steps pass", "lesson 1, step 2, How many times"])
    call("mine", "--build", "build/simt", "--into", "build/simt", code=77, says=["Nothing of yours"])
    watched()
    write("largest", "  int most = 0;\n  for (int x : v) most = x > most ? x : most;\n  return most;")
    learn(code=1, says=["now --races and --bounds look", "the whole does not", "lesson 01 gives other bits", "the cause is in yours", "own largest[(][)], step 1, this passes: look there[.]"],
          silent=["all 2 steps pass", "[?] :"])
    write("largest", "  int most = v[0];\n  for (int x : v) most = x > most && x < 100 ? x : most;\n  return most;")
    learn("--all", code=1, says=["found +60", "own largest[(][)], step 1, this passes: look there, and not at step 2"])
    write("largest", "  int most = v[0];\n  for (int x : v) most = x > most ? x : most;\n  volatile int beyond = v.data()[v.size()];\n  return beyond ? most : most;")
    learn(code=1, says=[r'does not:\n\n  "the largest of three", a test of step 1, under sanitizers:\n(.*\n)*.*toy[.]cpp:\d+, in largest(.|\n)*That is in largest[(][)], of step 1'])
    write("largest", "  int most = v[0];\n  for (int x : v) most = x > most ? x : most;\n  return most;")
    learn(code=0, says=["The whole passes", "all 2 steps pass", "Lesson 1  ##  2 of 2", "You can loop", "lessons/02_next/README.md"])
    path = pathlib.Path("lessons/01_toy/exercise/toy.cpp")
    path.write_text(path.read_text().replace("return v;\n}", "return v; /* } */ }").replace("v) {\n  for (int& x", "v) { for (int& x"))
    learn("--all", code=0, says=["Step 1 passes", "Step 2 passes"])
    call("mine", "--build", "build/simt", "--into", "build/simt", "--up-to", "0", code=77, says=["up to lesson 0"])
    call("mine", "--build", "build/simt", "--into", "build/simt", code=0, says=["Yours:\n +lessons/01_toy/exercise/toy.cpp"])
    call("blame", "--build", "build/simt", code=0, says=["lesson 1: all its tests pass", "None of them fails alone"])
    if "exercise/toy.cpp" not in pathlib.Path("build/simt/mine.txt").read_text():
        mistakes.append("mine: the file is not in mine.txt")
    written = path.read_text()
    path.write_text(written.replace("std::vector<int> twice", "constexpr int kTimes = 2;\nstd::vector<int> twice"))
    call("progress", code=0, says=["0 of 2 steps pass"])  # what is beside the functions runs in each of them
    path.write_text(written)
    call("progress", code=0, says=["2 of 2 steps pass"])
    builds()


def builds():
    """Where a build is made, how far it is, and whose mistake it was."""
    folder = pathlib.Path("build/simt")
    course = pathlib.Path("build/default")  # where that is, no kernel is built for what needs none
    shutil.copytree(folder, course, ignore=shutil.ignore_patterns("bin", "*.o"))
    course.joinpath("bin").mkdir()
    course.joinpath("bin/ladder").touch()
    learn("--all", code=0, says=["Step 2 passes", "The whole passes"])
    if sorted(path.name for path in course.glob("bin/*")) != ["ladder", "lesson01_exercise", "lesson01_exercise_asan", "lesson01_exercise_whole"]:
        mistakes.append(f"in build/default there are {list(course.glob('bin/*'))}")
    shutil.rmtree(course)
    many = pathlib.Path("build/many")
    many.mkdir()
    many.joinpath("build.ninja").write_text("rule r\n  command = touch $out\n" + "".join(f"build {n}: r\n" for n in range(40)))
    with contextlib.redirect_stderr(io.StringIO()) as said:
        runs.build(many, [str(n) for n in range(40)])
    if not 10 <= said.getvalue().count(" of 40 files") <= 11:
        mistakes.append(f"a build of 40 files says:\n{said.getvalue()}")
    for words, wanted in ((["toy.cpp:5:3: error: expected ';'"], "does not compile yet"), (["toy.cu(5): error: expected"], "does not compile yet"),
                          (["/usr/bin/ar: toy.cpp.o: No such file or directory"], "no compiler names a mistake of yours"),
                          (["toy.h:5:3: internal compiler error: Segmentation fault"], "no mistake of yours"),
                          ([runs.DO_NOT_FIT, "Defined twice:"], "cannot be linked")):
        if wanted not in runs.verdict(words):
            mistakes.append(f"{words}: {runs.verdict(words)}")
    hangs = many / "hangs"
    hangs.write_text("#!/bin/sh\ncase $* in *list*) ;; *) echo 'double free or corruption (out)'; exec sleep 9 ;; esac\n")
    hangs.chmod(0o755)
    if "A memory access went wrong" not in (told := "\n".join(runs.run_case(hangs, "a case", limit=0.5).report)):
        mistakes.append(told)


def watched():
    """--watch sees a file that is saved, and Ctrl-C ends it."""
    command = [sys.executable, "-u", "tools/exercise.py", "learn", "lessons/01_toy", "--build", "build/simt", "--watch"]
    process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    def until(pattern, silent="nothing"):
        for line in process.stdout:
            if re.search(silent, line):
                mistakes.append(f"--watch: {line}")
            if re.search(pattern, line):
                return True
        mistakes.append(f"--watch: no line has /{pattern}/")
    until("Watching")
    pathlib.Path("lessons/01_toy/exercise/toy.cpp").touch()  # nothing new in it
    time.sleep(0.5)
    write("twice", "  return v;")
    until("found +1  2  3", silent="found +1  9")
    until("Watching")
    process.send_signal(signal.SIGINT)
    rest = process.communicate(timeout=60)[0]
    if "Traceback" in rest or process.returncode != 1:
        mistakes.append(f"--watch: exit code {process.returncode} after Ctrl-C, and\n{rest}")
    left_on_a_terminal(command)
    write("twice", "  for (int& x : v) x = x + x;\n  return v;")


def left_on_a_terminal(watch):
    """Ctrl-C in --watch ends what is built in the background, too."""
    kept = {path: path.read_text() for path in (pathlib.Path("build/simt/CMakeCache.txt"), pathlib.Path("build/simt-tsan/build.ninja"))}
    cache, build = kept
    cache.write_text("KV_CUDA:STRING=SIMT\n")
    build.write_text(kept[build].replace("rule cc\n  command = ", "rule cc\n  command = echo $$$$ > slow.pid && exec sleep 100 && "))
    terminal, screen = pty.openpty()
    process = subprocess.Popen(watch, stdout=screen, stderr=screen)
    said = b""
    while b"Watching" not in said:
        said += os.read(terminal, 1000)
    slow = build.with_name("slow.pid")
    wait_until(lambda: slow.exists() and slow.read_text(), "no build in the background")
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    wait_until(lambda: not pathlib.Path("/proc", slow.read_text().strip()).exists(), "a build goes on in the background after Ctrl-C")
    for path, text in kept.items():
        path.write_text(text)


def wait_until(is_so, mistake):
    for _ in range(300):
        if is_so():
            return
        time.sleep(0.1)
    mistakes.append(f"--watch: {mistake}")


def repairs():
    """Each bug is found by a test, the lesson's own code passes, and the lesson's files stay as they are."""
    def repair(*words, **wanted):
        call("repair", "lessons/01_toy", "--build", "build/simt", *words, **wanted)

    mine, own = pathlib.Path("lessons/01_toy/repair/toy.cpp"), FILES["lessons/01_toy/toy.cpp"]
    repair("--level", "odd", code=2, says=["--level: found 'odd', wanted easy, middle or hard; ./course repair --help"])
    repair("--undo", code=2, says=["nothing to undo"])
    repair("--level", "middle", code=2, says=["no middle bug"])
    for level, symptom, test in (("easy", "It names the smallest", "the largest of three"), ("hard", "It adds", "each is doubled")):
        repair(*(["--next"] if level == "hard" else []), code=77, says=[f"A user says:\n\n  {symptom}", level.capitalize()])
        planted = mine.read_text()
        repair(code=1, says=["as it was", f'This test fails:\n\n  "{test}"', f"> +[0-9]+ .*{test}", symptom], silent=["Mended"])
        repair("--show", code=0, says=["toy.cpp: - yours, [+] the lesson's\n(.*\n)*-", "\n[+]"])
        mine.write_text(own)
        repair(code=0, says=["Mended: all [36] tests pass"], silent=["as it was"])
        repair("--reset", code=77, says=[symptom])
        if mine.read_text() != planted:
            mistakes.append("repair --reset: not the bug as it was")
        repair("--undo", code=77)
        if mine.read_text() != own:
            mistakes.append("repair --undo: not what was written")
    mine.write_text(own + "int")
    repair(code=1, says=["does not compile"])
    call("mine", "--repair", "--up-to", "1", "--build", "build/simt", "--into", "build/simt", code=0)
    if pathlib.Path("build/simt/mine.txt").read_text() != f"{mine}\n" or pathlib.Path("lessons/01_toy/toy.cpp").read_text() != own:
        mistakes.append("repair: mine.txt or the lesson's file")


def wrong_solutions():
    call("check", "--places", code=0)
    call("check", code=0, says=[r"\| 01 toy \| 2 \| 0 \| 5 \| 6 of 6 \|"])
    path = pathlib.Path("lessons/01_toy/test/bugs.txt")
    text = path.read_text()
    path.write_text(text + "\ntoy.cpp: harmless\n- x *= 2\n+ x += x\nsays: found\n\ntoy.cpp: other words\n- x *= 2\n+ x *= 3\nsays: abracadabra\n")
    call("check", code=1, says=["'harmless': no test finds it", "'other words': it is found, but", "6 of 8"])
    path.write_text(text + "\ntoy.cpp: nowhere\n- return most + most;\n+ return 0;\nsays: found\n")
    call("check", "--places", code=1, says=["'nowhere': its code is 0 times"])
    path.write_text(text + "\ntoy.cpp: other lines\n- x *= 2\nfinds: x\n")
    call("check", "--places", code=1, says=["'toy.cpp: other lines': found 'finds: x', wanted"])
    for new, code, says in (("", 0, "0 problems"), ("most = 1; most = 2;", 1, "'odd': in ./course repair its layout gives it away")):
        path.write_text(text + f"\ntoy.cpp: odd\n- for (int x : v) most = x > most ? x : most;\n+ {new}\nsays: found\neasy: It is odd.\n")
        if solutions.has_formatter():
            call("check", "--places", code=code, says=[says])
    path.write_text(text)
    call("mutants", "--cpu", code=1, says=["0 mutants of 1 lessons"])  # every step of the toy has a kernel's test
    call("mutants", code=1, says=["no reason, line 4\ntoy.cpp: .*most = x<< > => >= >>most"])
    path.write_text(text + SURVIVORS)
    call("mutants", code=0, says=["100.0 %"], silent=["no reason", "not there"])
    path.write_text(text + SURVIVORS + "toy.cpp: gone\n  equal: nothing\n")
    call("mutants", code=1, says=["listed, but found or not there: toy.cpp: gone"])
    path.write_text(text + "\nsurvivors:\ntoy.cpp: gone\n  whatever\n")
    call("mutants", code=2, says=["wanted '  KIND: REASON'"])
    readme = pathlib.Path("lessons/01_toy/exercise/README.md")
    readme.write_text(readme.read_text().replace('"of one"', '"of none"').replace('"each is doubled"', '"of one"'))
    call("check", code=1, says=['"of none" fails', "no test of this name", '"of one" passes'])


with tempfile.TemporaryDirectory() as folder:
    tools = [f"tools/{name}.py" for name in ("bugs", "exercise", "course_arguments", "course_builds", "kernel_runs", "kernel_traffic", "warp_trace")]
    for name in (*tools, ".clang-format", "common/todo.h", "tests/support/readable.h"):
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, path)
    shutil.copytree(ROOT / "tools/exercises", pathlib.Path(folder, "tools/exercises"))
    for name, text in FILES.items():
        path = pathlib.Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    os.chdir(folder)
    repairs()
    way_through()
    wrong_solutions()
print(*mistakes, sep="\n")
print(f"exercise: {len(mistakes)} mistakes")
sys.exit(1 if mistakes else 0)
