"""Options of programs that are not built yet: tools/options.txt has them, so that a typo is answered before a build.

tools/refresh_options.py writes that file from what the programs say, and compares it with them."""
import functools
import os
import pathlib
import re
import sys

from course_arguments import die, guess
from course_builds import PRESET, has_gpu

FILE = pathlib.Path(__file__).with_name("options.txt")


@functools.lru_cache(maxsize=None)
def programs():
    """From each program to its options, and from each of these to its value: DIR, cpu|cuda|auto, or nothing."""
    found = re.findall(r"^(\w+): (.*(?:\n  .*)*)", FILE.read_text(encoding="utf-8"), re.M)
    return {program: dict(re.findall(r"([\w-]+)(?: ([^\s,]+))?(?:,|$)", options)) for program, options in found}


def values(value):
    """The words that an option's value is one of; none where it is a number or a name."""
    return value.split("|") if value.islower() else []


def refuse_mistakes(program, words, typed):
    """Refuses what the program would refuse, too. What needs more than its list to be seen is left to the program."""
    known = programs().get(program)
    arguments = [name for name in known or {} if not name.startswith("-")]
    help_says = f"{typed} --help lists the options"
    rest = iter(words if known else [])
    for word in rest:
        name, has_value, value = word.partition("=")
        if not word.startswith("-"):
            if not arguments:
                die(f"unexpected '{word}'; a text of several words needs quotes; {help_says}")
            arguments.pop()
        elif name not in known:
            die(f"unknown option '{name}';{guess(name, known)} {help_says}")
        elif wanted := known[name]:
            value = value if has_value else next(rest, None)
            if value is None:
                die(f"{name}: a value is missing, wanted {wanted}; {help_says}")
            refuse_value(name, value, wanted, help_says)
    if program == "viz":
        refuse_window(words)


def refuse_window(words):
    """Refuses a page where there is no display. With an option it may need none."""
    has_display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform != "linux"
    if not has_display and not any(word.startswith("-") for word in words):
        die("cannot open a window: found no display (DISPLAY is not set); ./course web makes the visualizer for a browser, "
            "and --headless with --screenshot FILE draws a page")


def refuse_value(name, value, wanted, help_says):
    allowed = values(wanted)
    if allowed and value not in allowed:
        die(f"{name}: '{value}' is not allowed, wanted {', '.join(allowed[:-1])} or {allowed[-1]}; {help_says}")
    if wanted == "N" and not re.search(r"\d", value):
        die(f"{name}: '{value}' is not allowed, wanted a number; {help_says}")
    if name == "--device" and value == "cuda" and PRESET == "default" and not os.environ.get("CUDAARCHS") and not has_gpu():
        die("--device cuda: found no GPU that nvidia-smi lists, so the build would have no CUDA code; use --device cpu, or "
            "./course kernel, which simulates a GPU")
    if name == "--model" and wanted == "DIR" and not os.path.isdir(value):
        die(f"--model {value}: no such folder; wanted one with a model's config.json")
