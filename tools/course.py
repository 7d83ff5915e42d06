"""./course: builds what a command needs, and runs it. COMMANDS has them all.

Options belong to the programs: they explain them, and refuse what is wrong."""
import dataclasses
import inspect
import os
import re
import signal
import subprocess
import sys
import typing

import course_runs as runs
from course_arguments import die, end_with, fitted, guess, help_columns, options_in
from course_builds import ROOT, Build, lesson_folders, output_of, setup
from course_options import programs, refuse_mistakes, values

BEGIN = """\
usage: ./course COMMAND [options]

Page by Page: build the KV cache of an LLM server, lesson by lesson.

  ./course run          every lesson's engine: one table, the same bits
  ./course run 5        lesson 5's program
  ./course viz 5        its page, to click
  ./course test 5       its tests
  ./course exercise 5   parts of it, to write
  ./course help         all commands and lessons; ./course help run explains one

Begin with ./course run, then read lessons/01_no_cache/README.md"""

OPTIONS = "Common options: --device cpu|cuda|auto   --model DIR   --seed N   --help"
ENVIRONMENT = """\
Environment: COURSE_PRESET (default, cpu, cuda, release, asan, simt)
             COURSE_BUILD (a folder to build in)   COURSE_JOBS   KV_THREADS
             KV_MODEL   NO_COLOR"""

COMPLETION = {"bash": """\
_course() {
  local word typed=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  while IFS= read -r word; do
    [[ $word != "$typed"* ]] || COMPREPLY+=("$word")
  done < <("${COMP_WORDS[0]}" completion words "${COMP_WORDS[@]:1:$COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _course course"""}
COMPLETION["zsh"] = "\n".join(["autoload -U +X compinit && compinit", "autoload -U +X bashcompinit && bashcompinit",
                              COMPLETION["bash"]])


def completion(call):
    """
    In that shell, or in its ~/.bashrc or ~/.zshrc: source <(./course completion bash)

    Commands, lessons, options, and the words that an option may have are completed.
    """
    shell, *words = call.words or [""]
    if shell == "words":  # what the last one may be
        print("".join(f"{word}\n" for word in completions(words or [""])), end="")
    elif shell in COMPLETION:
        print(COMPLETION[shell])
    else:
        die(f"completion: found '{shell}', wanted bash or zsh; then, in that shell: source <(./course completion bash)")


@dataclasses.dataclass
class Command:
    name: str
    words: str  # what may follow it
    help: str
    run: typing.Callable  # whose docstring explains the options, unless a script or the program does
    builds: str = ""  # without a lesson
    of_lesson: str = ""  # with one, whose number replaces {}
    others: tuple = ()  # words in a lesson's place
    script: str = ""
    libraries: str = ""  # without which a build has no such program
    other_ways: dict = dataclasses.field(default_factory=dict)  # of running it, by their first word
    takes_mine: bool = False  # --mine and --repair
    needs: str = ""  # what must follow, and an example
    reads: bool = False  # its first word is a file's name, or an address with ://


IMGUI = "Dear ImGui (libimgui-dev, libstb-dev, libglfw3-dev)"
LIBEVENT = "libevent (libevent-dev)"
GROUPS = {
    "Lessons": [
        Command("run", "[N] [...]", "every lesson's engine: one table, the same bits; with N lesson N's program",
                runs.program, builds="ladder", of_lesson="lesson{}", takes_mine=True),
        Command("viz", "[N] [...]", "the visualizer: click lesson N's page, play its scenarios",
                runs.program, builds="viz", of_lesson="viz", others=("warp", "watch"), libraries=IMGUI,
                takes_mine=True),
        Command("exercise", "N [...]", "write lesson N's heart yourself, step by step; then run or viz --mine",
                runs.exercise, of_lesson="lesson{}_exercise", script="tools/exercise.py learn"),
        Command("repair", "N [...]", "a bug in lesson N's code, and what a user says of it: find it, mend it",
                runs.exercise, of_lesson="lesson{}_repair", script="tools/exercise.py repair"),
        Command("test", "[N] [...]", "the course's tests, or those of lesson N and its page",
                runs.test, of_lesson="tests_lesson{}"),
    ],
    "CUDA kernels, no GPU needed": [
        Command("kernel", "N [...]", "lesson N's kernels on a simulated GPU; gpu for N: those of docs/gpu.md",
                runs.kernel, of_lesson="lesson{}_gpu_test", others=("gpu",), script="tools/kernel_runs.py"),
    ],
    "Proof and costs": [
        Command("planted", "[...]", "puts one bug at a time into the code, and shows which test finds it",
                runs.script, script="tools/planted_bugs.py"),
        Command("bench", "[N] [...]", "what it costs: numbers and plots, docs/figures/",
                runs.bench, of_lesson="lesson{}_bench", others=("gpu",),
                other_ways={"gpu": runs.bench_gpu, "--road": runs.bench_road, "--peer": runs.bench_peer}),
        Command("bench-cpu", "[...]", "a model against this machine's memory bandwidth", runs.program, "bench_cpu"),
        Command("bench-cuda", "[...]", "a model on a GPU; --road: the matrix product from plain to fast; --peer: beside PyTorch",
                runs.program, "bench_cuda", other_ways={"--road": runs.bench_cuda_road, "--peer": runs.bench_cuda_peer}),
        Command("stale", "", "which numbers are older than what they measure", runs.stale),
    ],
    "For a model, a trace or a server of yours": [
        Command("plan", "[...]", "what its K and V take, how many sequences fit", runs.program, "plan",
                needs="a model and a memory: ./course plan --model 'Gemma 3 27B' --memory 24GiB"),
        Command("replay", "TRACE", "hit rates by pool size and policy", runs.program, "replay",
                needs="a trace, such as the example: ./course replay instruments/replay/example.jsonl", reads=True),
        Command("watch", "WHAT", "what a server's KV cache holds, from its events or from a recording",
                runs.program, "watch",
                needs="a recording, such as the example: ./course watch instruments/watch/example.kvevents; or a "
                "server's events: ./course serve --kv-events tcp://127.0.0.1:5557, and elsewhere ./course watch "
                "tcp://127.0.0.1:5557", reads=True),
        Command("serve", "[...]", "an HTTP server with OpenAI's API on the engines; --test: its tests",
                runs.program, "serve", libraries=LIBEVENT, other_ways={"--test": runs.serve_test}),
        Command("load", "[...]", "how fast such a server answers, and whether equal requests get equal answers",
                runs.program, "load", libraries=LIBEVENT),
        Command("route", "[...]", "one address for several: each request goes where its first token comes first",
                runs.program, "route", libraries=LIBEVENT, other_ways={"--test": runs.route_test},
                needs="servers: ./course route --server http://127.0.0.1:8001 --server http://127.0.0.1:8002"),
        Command("logits", "[...]", "logits of token ids, as a safetensors file", runs.program, "logits",
                needs="ids and a file: ./course logits --token-ids 1,2,3 --out logits.safetensors"),
        Command("tokenize", "[TEXT]", "text to token ids, and back", runs.program, "tokenize"),
        Command("make-model", "[...]", "a random-weight model of any shape", runs.program, "make_model",
                needs="a new folder: ./course make-model --out DIR"),
    ],
    "Pages and builds": [
        Command("web", "[...]", "visualizer and ladder for a browser, in build/web", runs.web),
        Command("site", "[...]", "the course as a web site", runs.site),
        Command("pictures", "", "draws docs/figures' pictures of pages again", runs.pictures),
        Command("build", "[TARGET]", "builds everything, or what is named", runs.build),
        Command("setup", "", "installs what is missing, as run and test do, too", runs.install),
        Command("completion", "SHELL", "completes commands and options in bash or zsh",
                completion, others=("bash", "zsh")),
    ],
}
COMMANDS = {command.name: command for group in GROUPS.values() for command in group}


class Call:
    """A command as it was typed."""

    def __init__(self, command, words):
        self.command = command
        self.typed = f"./course {command.name}"
        self.build = Build()
        self.lesson = ""  # as "05"
        self.words = list(words)
        self.wants_help = not {"-h", "--help"}.isdisjoint(words) or words[:1] == ["help"]
        if command.of_lesson:
            self.take_lesson(words[0] if words else "")

    def take_lesson(self, first):
        """Takes the lesson's number, or its name, out of the words, and refuses another word in its place."""
        command = self.command
        numbers = {name: folder.name[:2] for folder in lesson_folders() for name in (folder.name, folder.name[3:])}
        first = numbers.get(first.removeprefix("lessons/").rstrip("/"), first)
        if first.isdecimal():
            self.lesson = lesson_number(first)
            self.typed += f" {int(first)}"
            self.words.pop(0)
        elif self.wants_help or first in command.others:
            pass
        elif first and not first.startswith("-"):
            wanted = ", or ".join(["a lesson's number or name", *command.others])
            meant = guess(first, [*command.others, *numbers, *options_in(explanation(self))])
            die(f"{command.name}: found '{first}', wanted {wanted};{meant} ./course help lists the lessons")
        elif command.words.startswith("N"):
            die(f"which lesson's? For example: {self.typed} 3; {self.typed} --help says more")

    @property
    def folder(self):
        """The lesson's, from the root of the repository."""
        return next(ROOT.glob(f"lessons/{self.lesson}_*")).relative_to(ROOT)

    @property
    def target(self):
        """What is built."""
        return self.command.of_lesson.format(self.lesson) if self.lesson else self.command.builds

    @property
    def of_mine(self):
        """What is said of running a learner's files: --mine, --repair."""
        return {"--mine", "--repair"}.intersection(self.words) if self.command.takes_mine else set()

    @property
    def words_of_program(self):
        one_for_all = self.lesson and self.command.of_lesson == self.command.builds  # one program for all lessons
        words = [str(int(self.lesson))] if one_for_all else []
        return words + [word for word in self.words if word not in self.of_mine]

    @property
    def program(self):
        return self.build.program(self.target)

    def run(self):
        command = self.command
        if command.needs and not self.words:
            die(f"{command.name}: found nothing after it, wanted {command.needs}")
        if command.reads and not self.words[0].startswith("-") and "://" not in self.words[0] and not os.path.exists(self.words[0]):
            die(f"{command.name}: found no file {self.words[0]}, wanted {command.needs}")
        other_way = command.other_ways.get(self.words[0]) if self.words else None
        if not other_way:
            self.refuse_mistakes()
        if not command.script and (command.builds or command.of_lesson):
            setup(self.build)
        if command.libraries:
            self.build.wings()
            if not self.build.has_target(command.builds):
                die(f"this build has no {command.name}: it was configured without {command.libraries}")
        if other_way:
            self.words.pop(0)
        return (other_way or command.run)(self)

    def refuse_mistakes(self):
        """Before a build, or the end of another one, is waited for. What is built may have options that the list has not."""
        words = self.words_of_program
        own = set(options_in(explanation(self))) if self.program.is_file() else set()
        if own.difference(programs().get(self.target, [])).isdisjoint(word.split("=")[0] for word in words):
            refuse_mistakes(self.target, words, self.typed)

    def takes_nothing(self):
        if self.words:
            die(f"{self.command.name}: found '{self.words[0]}', wanted nothing after it")


def lesson_number(word):
    """"2" or "02" to "02"."""
    number = f"{int(word):02}" if len(word) <= 3 else word
    if not any(ROOT.glob(f"lessons/{number}_*/CMakeLists.txt")):
        die(f"there is no lesson {word}; ./course help lists the lessons")
    return number


# --- help


def usage(command):
    return f"{f'  ./course {command.name} {command.words}':<28} {command.help}"


def everything():
    lines = BEGIN.split("\n")[:3]
    for group, commands in GROUPS.items():
        lines += ["", f"{group}:", *map(usage, commands)]
    lines += ["", OPTIONS, ENVIRONMENT, "", "Lessons:"]
    for folder in lesson_folders():
        title = re.search(r"^# *([^:\n]*)", (folder / "README.md").read_text(encoding="utf-8"), re.M)[1]
        lines.append(f"  {int(folder.name[:2]):<3} {title:<28} lessons/{folder.name}/README.md")
    return "\n".join(lines)


def row(name, words):
    """A line of a help, in the columns of programs/options.cpp."""
    return f"  {name}".ljust(min(max(help_columns() // 2, 20), 34)) + words


def with_own_options(call, text):
    """A program's help with what ./course itself takes."""
    rows = ["", "options:", row("--mine", "your files of ./course exercise, those that pass, instead of the lessons'")]
    if call.lesson:
        rows.append(row("--repair", f"your copy of ./course repair {int(call.lesson)}"))
    elif call.command.name == "run":
        lesson = row("N", "lesson N's program instead, with options of its own: ./course run 3 --help")
        rows = ["", "arguments:", lesson, *rows]
    return text.replace("\noptions:", "\n".join(rows), 1)


def without_program(call):
    """The help of a command that has no program, or none yet."""
    command = call.command
    words = command.words.removeprefix("[N] ") if call.lesson else command.words
    usage_line = f"usage: {call.typed} {words}".replace("[...]", "[options]").rstrip()
    about = command.help.split("; with N ")[-1].replace("lesson N", f"lesson {int(call.lesson)}") if call.lesson else command.help
    text = f"{usage_line}\n\n{about[0].upper()}{about[1:]}.\n\n"
    if command.run.__doc__ and call.target not in programs():
        return f"{text}{inspect.cleandoc(command.run.__doc__)}\n\n{ENVIRONMENT}"
    listed = [row("-h, --help", "shows this help")]
    listed += [f"  {option} {value}".rstrip() for option, value in programs().get(call.target, {}).items() if option.startswith("-")]
    text += "\n".join(["options:", *listed])
    return f"{text}\n\nThe program explains them once it is built: ./course build {call.target}"


def explanation(call):
    """What --help prints. A program explains itself once it is built; nothing is built for that."""
    command = call.command
    typed = f"{call.typed} [N]" if command.name == "run" and not call.lesson else call.typed
    environment = {**os.environ, "COURSE_COMMAND": typed, "COLUMNS": str(help_columns())}
    if command.script:
        tool, *verb = command.script.split()
        return output_of([sys.executable, ROOT / tool, *verb, "--help"], env=environment).rstrip()
    is_built = call.program.is_file()
    text = output_of([call.program, "--help"], env=environment).rstrip() if is_built else without_program(call)
    return with_own_options(call, text) if command.takes_mine else text


def completions(words):
    """What the last word may be."""
    *typed, last = words
    if not typed or typed == ["help"]:
        return sorted([*COMMANDS, "help", "version"])
    if typed[0] not in COMMANDS:
        return []
    command = COMMANDS[typed[0]]
    call = Call(command, [*typed[1:2], "--help"])
    if last.startswith("-"):
        return options_in(explanation(call))
    if len(typed) == 1:
        lessons = [str(int(folder.name[:2])) for folder in lesson_folders()] if command.of_lesson else []
        return [*lessons, *command.others]
    return values(programs().get(call.target, {}).get(typed[-1], ""))


def version():
    commit = output_of(["git", "log", "-1", "--format=commit %h of %cs"], cwd=ROOT).strip()
    return f"Page by Page, {len(lesson_folders())} lessons, {commit or 'a copy without its history'}"


def main():
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that has left is no error; programs want it so, too
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    name, *words = sys.argv[1:] or [""]
    if name == "help" and words:  # help run 5 is run 5 --help
        name, *words = [*words, "--help"]
    if name in COMMANDS:
        call = Call(COMMANDS[name], words)
        return print(fitted(explanation(call), help_columns())) if call.wants_help else call.run()
    if name == "":
        return print(fitted(f"{BEGIN}\n{output_of([sys.executable, ROOT / 'tools/exercise.py', 'progress'])}".rstrip(), help_columns()))
    if name in ("version", "--version", "-V"):
        return print(version())
    if name in ("help", "-h", "--help"):
        return print(fitted(everything(), help_columns()))
    meant = f" did you mean ./course run {name}?" if name.isdecimal() else guess(name, [*COMMANDS, "help", "version"], "./course ")
    return die(f"unknown command '{name}';{meant} ./course help lists the commands")


if __name__ == "__main__":
    end_with(main, subprocess.SubprocessError)
