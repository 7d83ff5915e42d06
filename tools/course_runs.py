"""How the commands of ./course run: each builds what it needs, and most then become the program.

A docstring is what --help prints of a command. Those without one have a program that explains itself."""
import importlib.util
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import course_tests
from course_arguments import Parser, die, options_in, say
from course_builds import BUILDS, PACKAGES, ROOT, Build, child, exercise_folder, lesson_folders, setup, setup_npm
from web.pack import pages

ENDED_FROM_OUTSIDE = (0, 130, 141, -signal.SIGINT, -signal.SIGPIPE)


def become(program, *words, typed=""):
    """Ends this program and runs another one, which calls itself what was typed."""
    if typed:
        os.environ["COURSE_COMMAND"] = typed
    sys.stdout.flush()
    os.execvp(program, [str(word) for word in (program, *words)])


def python(tool, *words):
    os.chdir(ROOT)
    become(sys.executable, tool, *words)


def code_of(tool, *words, **how):
    """The exit code of a tool."""
    return subprocess.run([sys.executable, tool, *words], cwd=ROOT, check=False, **how).returncode


def echoed(lines, stream):
    """Shows lines as they come; all of them in the end."""
    text = ""
    for line in lines:
        print(line, end="", file=stream, flush=True)
        text += line
    return text


# --- lessons, and other programs


def program(call):
    if call.of_mine:
        return on_files_of_mine(call, f"{call.target}_mine", "--repair" in call.of_mine)
    call.build.build(call.target)
    return become(call.program, *call.words_of_program, typed=call.typed)


def on_files_of_mine(call, target, repair):
    """Runs a program on the learner's files that pass. After an error it says in whose lesson the cause is."""
    if repair and not call.lesson:
        die(f"{call.typed} --repair: which lesson's? For example: {call.typed} 3 --repair")
    call.build.configure()
    lessons = ["--build", exercise_folder(), "--up-to", call.lesson or "99"]
    if code := code_of("tools/exercise.py", "mine", "--into", call.build.folder, *lessons, *["--repair"] * repair):
        return code
    call.build.build(target)
    os.environ["COURSE_COMMAND"] = call.typed
    with child([call.build.program(target), *call.words_of_program], text=True, stderr=subprocess.PIPE) as running:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program decides what Ctrl-C means
        said = echoed(running.stderr, sys.stderr)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = running.returncode
    if not repair and code not in ENDED_FROM_OUTSIDE and "--help" not in said:  # which is in what is said of a wrong option
        code_of("tools/exercise.py", "blame", *lessons, stdout=sys.stderr)
    return code if code >= 0 else 128 - code


def script(call):
    return python(*call.command.script.split(), *call.words)


def exercise(call):
    return python(*call.command.script.split(), call.folder, *call.words)


def kernel(call):
    return python("tools/kernel_runs.py", call.lesson or "gpu", *(call.words if call.lesson else call.words[1:]))


def test(call):
    """
    options:
      --all                           pages, instruments, programs and the repository's rules, too
      --long                          all random operations, prompts and failures, as docs/proof.md has them
      -R PATTERN                      those whose name matches; -L and -LE by label, --rerun-failed, and all
                                      else that ctest takes

    A line for each program of tests, and what fails in full. With -V ctest prints all that it says.
    """
    return course_tests.run(call.build, call.lesson, call.words, call.typed)


# --- proof and costs


def bench(call):
    """
    arguments:
      N                               lesson N's alone; its options: ./course bench N --help
      4 --road                        its kernel from plain to fast, on a GPU
      4 --peer                        PyTorch's attention beside it, on a GPU; all else as for bench 4
      gpu                             how long a thread waits for a GPU's memories

    What is printed goes into docs/figures: the data, the plots, and the texts that show it.
    """
    folders = [ROOT / call.folder] if call.lesson else lesson_folders()
    numbers = [folder.name[:2] for folder in folders if (folder / "bench/main.cpp").exists()]
    for number in numbers or die(f"lesson {call.lesson} has no benchmark"):
        say(f"Measuring lesson {number}")
        if code := record(call, f"./course bench {int(number)}", f"lesson{number}_bench"):
            return code
    return 0


def bench_gpu(call):
    call.build.configure()
    if not call.build.has_target("gpu_latencies"):
        die("this build has no CUDA code: bench gpu measures a GPU (COURSE_PRESET=cuda)")
    return record(call, "./course bench gpu", "gpu_latencies")


def bench_road(call):
    if not call.lesson or not (ROOT / call.folder / "road").is_dir():
        die(f"{call.typed}: no road here; lesson 4 has one")
    return record(call, f"{call.typed} --road", f"lesson{call.lesson}_road_bench")


def beside_pytorch(call, typed, target):
    if importlib.util.find_spec("torch") is None:
        die(f"{call.typed} --peer measures PyTorch's attention beside ours, and this python3 has no PyTorch; "
            "without --peer ours is measured alone")
    return record(call, typed, target) or code_of("tools/peer_attention.py", call.build.folder / "measured.json")


def bench_peer(call):
    if call.lesson != "04":
        die(f"{call.typed}: PyTorch has no peer of this; lesson 4 has one")
    if "--device" not in call.words:
        call.words += ["--device", "cuda"]
    return beside_pytorch(call, "./course bench 4", "lesson04_bench")


def bench_cuda_peer(call):
    return beside_pytorch(call, "./course bench-cuda", "bench_cuda")


def bench_cuda_road(call):
    return record(call, f"{call.typed} --road", "kernels_road_bench")


def record(call, typed, target):
    """Runs a benchmark; the plots and texts that show what it printed show this from now on."""
    call.build.build(target)
    out = call.build.folder / "measured.json"
    os.environ["COURSE_COMMAND"] = typed
    os.environ.pop("COLUMNS", None)  # at full width
    with child([call.build.program(target), *call.words, "--json", out], text=True, stdout=subprocess.PIPE) as running:
        printed = echoed(running.stdout, sys.stdout)
    recorded = " ".join([typed, *call.words])
    return (running.returncode or code_of("tools/measured.py", "record", recorded, out, input=printed, text=True)
            or code_of("tools/figures/all.py"))


def stale(call):
    """
    does      compares docs/figures/data/*.json, and the texts that show it, with the commits of the code measured
    result    a line for each; exit code 1 if anything is stale; tools/measured.py --help has the files' form
    example   ./course stale
    """
    call.takes_nothing()
    return python("tools/measured.py", "stale")


# --- servers


def serve_test(call):
    setup_npm(call.build, "tests/serve", "the openai package")
    call.build.build("serve", "lesson02")
    os.environ["SERVE_BIN"] = str(call.program.parent)
    os.chdir(ROOT / "tests/serve")
    if call.words[:1] == ["--soak"]:  # a mixed load for so many minutes
        return become("node", "soak.mjs", *(call.words[1:] or ["30"]))
    return become("node", "--test", "client.test.mjs", "equal.test.mjs", "page.test.mjs")


def route_test(call):
    call.build.build("serve", "route", "load")
    return python("instruments/route/test/three_servers.py", call.program.parent, *call.words)


# --- pages and builds


def web(call):
    """
    options:
      --out DIR                       where they go (build/web)
      --test                          tries them in Chromium

    does      compiles the visualizer and the ladder to WebAssembly and packs them with the model that ships; it
              installs emscripten if that is missing
    takes     the first time half an hour on two cores, then what a change needs
    result    build/web (or --out DIR): index.html and ladder.html, for any server or opened as files
    example   ./course web && python3 -m http.server -d build/web
    """
    parser = Parser(prog=call.typed)
    parser.add_argument("--out", metavar="DIR", type=pathlib.Path, default=BUILDS / "web")
    parser.add_argument("--test", action="store_true")
    options = parser.parse_args(call.words)
    out = options.out.resolve()
    wasm = Build("wasm")
    setup(wasm, [*PACKAGES, "emscripten"])
    # emscripten's own scripts want a module that Debian's node finds, and others do not.
    os.environ.setdefault("NODE_PATH", "/usr/share/nodejs")
    wasm.check()
    wasm.logged("sources.log", ["tools/web/sources.sh", BUILDS / "sources"])
    wasm.build("visualizer", "ladder")
    pages(wasm.folder / "bin", out)
    say(f"The visualizer is {out}/index.html, the ladder {out}/ladder.html: from any server, or opened as files")
    if not options.test:
        return 0
    setup_site(call)
    os.environ["WEB_OUT"] = str(out)
    os.chdir(ROOT)
    return become("node", "--test", *sorted(ROOT.glob("tests/web/*.test.mjs")))


def site(call):
    """
    options:
      --out DIR                       where it goes (build/site)
      --web DIR                       the visualizer, as ./course web makes it (build/web, if it is there)
      --base /X/                      the folder of a server that the site will be in (/)
      --serve                         shows it at an address of this machine, until Ctrl-C (--port N)
      --test                          checks it: links, pictures, anchors; in Chromium what a reader does,
                                      accessibility, sizes

    takes     a minute; the first time npm installs VitePress into site, too
    result    build/site (or --out DIR), for any web server
    example   ./course web && ./course site --serve
    """
    course_tests.refuse_unknown(call.words, options_in(site.__doc__), call.typed)
    setup_site(call)
    os.environ["COURSE_BUILD"] = str(BUILDS)
    return become("node", ROOT / "site/make.mjs", *call.words)


def setup_site(call):
    """Node, for tests a Chromium, and no compiler."""
    if "--test" in call.words and not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        setup(call.build, ["chromium"])
    setup_npm(call.build, "site", "what the site is made with")


def pictures(call):
    """
    does      draws each picture of viz/shell/pictures.txt with the visualizer, which it builds first
    takes     seconds, once the visualizer is built
    result    SVG and PNG files in docs/figures; the plots there are ./course bench's
    example   ./course pictures && git status docs/figures
    """
    call.takes_nothing()
    setup(call.build)
    call.build.build("viz")
    return become(call.build.program("viz"), "--pictures", ROOT / "docs/figures")


def build(call):
    """
    does      configures once, then compiles what has changed: everything, or the targets named, such as lesson05,
              lesson05_test, viz or tests
    takes     from nothing 20 minutes of one core; then seconds for a .cpp, minutes for a header of common
    result    programs in build/default/bin; what the compiler said is in build/default/build.log
    example   ./course build lesson05_test && build/default/bin/lesson05_test
    """
    for word in call.words:
        if word.startswith("-"):
            die(f"build: found '{word}', wanted names of targets; COURSE_JOBS=4 builds with four compilers")
    setup(call.build)
    call.build.wings()
    call.build.check_targets(call.words)
    call.build.build(*call.words)


def install(call):
    """
    does      asks dpkg which packages of Debian or Ubuntu a build lacks, and installs them with apt-get as root or
              through sudo; if sudo asks for a password, it prints the apt-get line instead
    takes     a second if nothing is missing, else minutes: 140 MB to download, 680 MB on disk
    result    packages of the system; what apt-get said is in build/default/setup.log
    example   ./course setup && ./course run
    """
    call.takes_nothing()
    setup(call.build)
    say("Nothing is missing.")
