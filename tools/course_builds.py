"""Build folders: what a build needs, one build at a time in each, and how far it is."""
import contextlib
import fcntl
import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

from course_arguments import die, guess, move, rewrites, say

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILDS = ROOT / (os.environ.get("COURSE_BUILD") or "build")
PRESET = os.environ.get("COURSE_PRESET") or "default"
PATIENCE_S = 2  # before a build that has said nothing is mentioned
# The simulated GPU, and each tool of it, has a build of its own.
SIMULATED = {"": "simt", "races": "simt-tsan", "bounds": "simt-asan", "traffic": "simt-trace"}
READ = {"text": True, "errors": "replace", "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}  # line by line
PACKAGES = """build-essential cmake ninja-build pkg-config python3 python3-jinja2 libfmt-dev nlohmann-json3-dev
    libcli11-dev libpcre2-dev libutf8proc-dev libxxhash-dev doctest-dev libssl-dev zlib1g-dev libzmq3-dev cppzmq-dev
    libevent-dev libhiredis-dev redis-server libimgui-dev libstb-dev libglfw3-dev libgl-dev fonts-dejavu-core""".split()
OTHER_SYSTEMS = """cmake not found, and this is not Debian or Ubuntu. Install cmake 3.25, ninja, a C++20 compiler, \
pkg-config, PCRE2, utf8proc, xxHash, zlib, OpenSSL and, to watch servers, ZeroMQ and cppzmq, and to serve, load or \
route, libevent and, for chat templates, python3 with jinja2 and, to share blocks, hiredis and redis-server; the rest \
is downloaded."""


def num_jobs():
    """A compiler for each core that this process may use, and a GiB for each."""
    if given := os.environ.get("COURSE_JOBS"):
        if not re.fullmatch(r"[1-9]\d{0,3}", given):
            die(f"COURSE_JOBS: found '{given}', wanted a number of compilers from 1 to 9999")
        return int(given)
    cores, gib = os.cpu_count() or 2, 99
    with contextlib.suppress(OSError, AttributeError):  # where it is not Linux
        cores = len(os.sched_getaffinity(0))
        memory = pathlib.Path("/proc/meminfo").read_text(encoding="ascii")
        gib = int(re.search(r"MemAvailable: +(\d+)", memory)[1]) >> 20
    return max(1, min(cores, gib))


def lesson_folders():
    return sorted(path for path in ROOT.glob("lessons/[0-9]*") if path.is_dir())


def shown(path):
    """A path from the root of the repository, if it is in there."""
    return str(path).replace(f"{ROOT}/", "", 1)


class TimeLeft:
    """Of a build. One step compiles CUDA for a minute, another is in a compiler's cache, so the first ones say little: beside
    them count as many as a quarter of all, of the usual time. What was said rises only when a quarter more is left, by a minute."""
    STEP_S = 2  # of a core

    def __init__(self):
        self.minutes = 0

    def words(self, seconds, done, steps, before, after=""):
        """Both around "about 3 minutes", when so many steps took so long; nothing for what is short."""
        usual = steps / 4
        seconds_a_step = (seconds + usual * self.STEP_S / num_jobs()) / (done + usual)
        left = seconds_a_step * (steps - done)
        minutes = int(left + 30) // 60
        minutes = 5 * round(minutes / 5) if minutes > 10 else minutes
        if done == 0 or minutes < self.minutes:
            self.minutes = minutes
        elif left > 75 * self.minutes + 30:
            self.minutes += 1
        return f"{before}about {self.minutes} minute{'s' if self.minutes > 1 else ''}{after}" if self.minutes else ""


@contextlib.contextmanager
def child(command, **how):
    """A process that ends before this one does: Ctrl-C and SIGTERM reach it, too, and it takes its time."""
    process = subprocess.Popen(command, **how)
    try:
        yield process
        process.wait()
    except BaseException as error:
        process.send_signal(signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM)
        process.wait()
        raise


def succeeds(command):
    """Runs a command, and says nothing of it."""
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode == 0


def output_of(command, **how):
    """What a command prints, but for errors."""
    how.update(text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return subprocess.run(command, check=False, **how).stdout


# --- packages


def setup(build, packages=PACKAGES):
    """Installs the packages that are missing. Says nothing when there are none."""
    if not shutil.which("dpkg-query"):
        return shutil.which("cmake") or die(OTHER_SYSTEMS)
    # A line for each package and each architecture that it is installed for.
    installed = output_of(["dpkg-query", "-W", "-f=${db:Status-Status} ${Package}\n", *packages]).splitlines()
    missing = [package for package in packages if f"installed {package}" not in installed]
    if not missing:
        return None
    by_hand = f"sudo apt-get install -y {' '.join(missing)}"
    as_root = "sudo -n" if os.geteuid() else ""
    if not succeeds(["sh", "-c", f"{as_root} true"]):
        die(f"these packages are missing; install them and run this again: {by_hand}")
    say(f"Installing {len(missing)} package{'s' if len(missing) > 1 else ''}: {' '.join(missing)}")
    build.check()
    os.environ["DEBIAN_FRONTEND"] = "noninteractive"
    install = f"{as_root} apt-get update && {as_root} apt-get install -y --no-install-recommends {' '.join(missing)}"
    build.logged("setup.log", ["sh", "-c", install], f"apt-get could not install them. By hand: {by_hand}")


def setup_npm(build, folder, what):
    """What a folder's package-lock.json names."""
    if not shutil.which("node") or not shutil.which("npm"):
        setup(build, ["nodejs", "npm"])
    installed = ROOT / folder / "node_modules/.package-lock.json"
    if installed.exists() and installed.stat().st_mtime > (ROOT / folder / "package-lock.json").stat().st_mtime:
        return
    say(f"Installing {what}, as {folder}/package-lock.json names it")
    build.check()
    build.logged("npm.log", ["npm", "ci", "--prefix", folder, "--ignore-scripts", "--no-audit", "--no-fund"])


# --- building


@contextlib.contextmanager
def alone_in(folder):
    """One build at a time in a folder: two of them would write each other's files. Yields the file that is locked."""
    with open(folder / "course.lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another ./course builds in {shown(folder)}; waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def run_ninja(folder, targets, progress):
    """Builds targets, alone in a folder; whether that worked. `progress` reads what ninja prints."""
    command = ["ninja", "-C", folder, "-j", str(num_jobs()), *targets]
    status = {**os.environ, "NINJA_STATUS": "[%f/%t] "}
    with alone_in(folder) as lock:
        progress.start()
        try:
            # ninja keeps the lock: nobody else builds before it has ended.
            with child(command, env=status, pass_fds=[lock.fileno()], **READ) as ninja:
                for line in ninja.stdout:
                    progress.read(line.rstrip())
        finally:
            progress.end()
    return ninja.returncode == 0


class Build:
    """The folder of a preset."""

    def __init__(self, preset=PRESET):
        self.preset = preset
        self.folder = BUILDS / preset

    def program(self, name):
        return self.folder / "bin" / name

    def check(self):
        """Refuses what cannot be built."""
        num_jobs()
        presets = [ROOT / "CMakePresets.json", ROOT / "CMakeUserPresets.json"]
        if not any(f'"name": "{self.preset}"' in path.read_text(encoding="utf-8") for path in presets if path.exists()):
            die(f"COURSE_PRESET: found '{self.preset}', wanted default, cpu, cuda, release, asan or simt; correct it")
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
        if not os.access(self.folder, os.W_OK):
            die(f"cannot write to {self.folder}; name a folder to build in: COURSE_BUILD=/some/folder ./course ...")

    def logged(self, log, command, failed=""):
        """Runs a command, its output into a file; after a failure shows its end, and what to say of it."""
        log = self.folder / log
        with open(log, "w", encoding="utf-8") as file:
            with child(command, cwd=ROOT, stdout=file, stderr=file) as process:
                pass
        if process.returncode != 0:
            say("\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-40:]))
            failed = failed or f"this failed: {' '.join(map(str, command))}"
            die(f"{failed} (the whole output is in {shown(log)})")

    def must_configure(self):
        ninja = self.folder / "build.ninja"
        return not ninja.exists() or ninja.stat().st_mtime < (ROOT / "CMakePresets.json").stat().st_mtime

    def configure(self):
        self.check()
        if not self.must_configure():
            return
        with alone_in(self.folder):
            if not self.must_configure():  # another ./course has
                return
            say(f"Configuring (preset {self.preset})")
            self.logged("configure.log", ["cmake", "--preset", self.preset, "-B", self.folder])
            log = (self.folder / "configure.log").read_text(encoding="utf-8")
            for line in re.findall(r"^-- (CUDA code is .*)", log, re.M):
                say(f"  {line}")

    def wings(self):
        """Configures pages, the visualizer, instruments and the repository's rules, too: once one of them is built."""
        self.configure()
        cache = self.folder / "CMakeCache.txt"
        if "KV_WINGS:BOOL=ON" in cache.read_text(encoding="utf-8").splitlines():
            return
        with alone_in(self.folder):
            self.logged("configure.log", ["cmake", "--preset", self.preset, "-B", self.folder, "-DKV_WINGS=ON"])

    def has_target(self, name):
        return succeeds(["ninja", "-C", self.folder, "-t", "query", name])

    def check_targets(self, names):
        for name in itertools.filterfalse(self.has_target, names):
            known = output_of(["ninja", "-C", self.folder, "-t", "targets", "all"])
            # Names without a dot or a slash: targets, and not files.
            meant = guess(name, re.findall(r"^([A-Za-z]\w*): ", known, re.M))
            die(f"unknown target '{name}';{meant} for example ./course build lesson05, lesson05_test or tests")

    def build(self, *targets):
        """Builds targets, or everything. Says nothing when there is nothing to do."""
        self.configure()
        if not targets or not all(map(self.has_target, targets)):
            self.wings()
        log = self.folder / "build.log"
        try:
            with open(log, "w", encoding="utf-8", buffering=1) as file:
                is_built = run_ninja(self.folder, targets, Progress(targets, file))
        except KeyboardInterrupt:
            say("Stopped; the next build goes on from here")
            raise
        if not is_built:
            die(f"the build failed (the whole output is in {shown(log)})")


def has_gpu():
    return bool(shutil.which("nvidia-smi")) and succeeds(["nvidia-smi", "-L"])


def exercise_folder(preset="", tool=""):
    """Exercises run on this machine's GPU, or else on the simulated one; with a tool of it in that tool's build."""
    nvcc = shutil.which(os.environ.get("CUDACXX", "nvcc")) or pathlib.Path("/usr/local/cuda/bin/nvcc").exists()
    build = Build(SIMULATED[tool] if tool else preset or ("default" if nvcc and has_gpu() else "simt"))
    setup(build)
    os.environ["COURSE_JOBS"] = str(num_jobs())
    build.configure()
    return build.folder


def source_of(step):
    """The file that a step of ninja compiles, as a reader knows it; of another step its words."""
    return re.sub(r"^Building \w+ object (\S*?)CMakeFiles/[^/]+\.dir/(\S+)\.o$", r"\1\2", step)


class Progress:
    """Reads what ninja prints. Says that something is built once a step is done, or after two seconds: a dry run
    cannot tell, since whether a file is new is seen only when ninja runs. A terminal gets a line that moves, and a file
    a line for each tenth of a long build, 20 seconds apart or more. A failure is shown without its command, which is
    long and in the log."""

    def __init__(self, targets, log):
        self.what = " ".join(["Building", *targets])
        self.log = log
        self.is_announced = self.is_moving = False
        self.failure = ""  # what comes next of one: its command, or what the compiler said
        self.steps = self.tenth = self.said_at = 0
        self.time_left = TimeLeft()
        self.timer = threading.Timer(PATIENCE_S, self.announce)
        self.timer.daemon = True

    def start(self):
        self.begun = time.monotonic()
        self.timer.start()

    def announce(self, time_needed=""):
        self.timer.cancel()
        if not self.is_announced:
            say(f"{self.what}: {time_needed}" if time_needed else self.what)
        elif time_needed:
            say(f"  {time_needed}")
        self.is_announced = True

    def read(self, line):
        self.log.write(f"{line}\n")
        status = re.match(r"\[(\d+)/(\d+)\] (?!Re-checking globbed|Re-running CMake)(.*)", line)
        if line.startswith("FAILED:"):
            self.failure = "command"
        elif self.failure == "command":
            self.failure = "output"
        elif status:
            self.failure = ""
            self.step(int(status[1]), int(status[2]), source_of(status[3]))
        elif line.startswith("ninja: "):
            self.failure = ""
            if line.startswith("ninja: error: "):
                self.show(line.removeprefix("ninja: error: "))
        elif self.failure:
            self.show(line)

    def step(self, done, steps, what):
        if not self.steps:
            self.steps = steps
            self.announce(self.time_left.words(0, 0, steps, f"{steps} steps, "))
        seconds = time.monotonic() - self.begun
        if rewrites(sys.stderr):
            self.is_moving = True
            left = self.time_left.words(seconds, done, steps, " ", " left")
            move(f"  [{done}/{steps}]{left} {what}")
        elif seconds >= self.said_at + 20 and 10 * done // steps > self.tenth:
            self.tenth, self.said_at = 10 * done // steps, seconds
            say(f"  {done} of {steps}{self.time_left.words(seconds, done, steps, ', ', ' left')}")

    def show(self, line):
        self.end()
        say(line)

    def end(self):
        self.timer.cancel()
        if self.is_moving:
            move("")
        self.is_moving = False
