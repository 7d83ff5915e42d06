#!/usr/bin/env python3
"""Runs every ./course line of every text once, on little input: what a text tells a reader to type must work.

  run_commands.py --bin FOLDER [--list] [--only TEXT]

FOLDER has the programs (build/default/bin). Lines come from code blocks, from `./course ...` in prose and from the
marks <!-- output: ... -->, but for those that tools/refresh_outputs.py --check compares with what they print.
NOT_RUN says which lines do not run here, and why; --list prints the lines with that.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import refresh_outputs  # noqa: E402
from course_arguments import Parser, end_with  # noqa: E402

NOT_RUN = [  # the first that is found in a line counts
    (r"--device cuda|bench-cuda|--judging|--road", "needs a GPU"),
    (r"(tcp|redis)://|attach http", "needs a server, and the last a window"),
    (r"course route --test", "a test of its own"),
    (r"course (serve|load|route --server)\b", "a server, which does not end, and what asks it: ./course serve --test"),
    (r"--like qwen3", "writes a model of a gigabyte"),
    (r"course bench", "measures for minutes"),
    (r"course stale", "exits with 1 while a number is older than its code; the selftest of check.py runs it"),
    (r"course (test|build|setup)\b", "CI's first steps"),
    (r"course (web|site|pictures)\b", "steps of CI, and the visualizer's tests"),
    (r"course kernel|course planted( --kernels)?$", "CI's steps for the simulated GPU, and hours"),
    (r"course exercise|course repair|--mine|--repair", "CI's steps for exercises, and exercise_test.py"),
    (r"viz --trace", "needs a window"),
]
SMALLER = [  # what stands for something of the reader's, and what would take long or write into the repository
    (r"~/models/[\w.-]+|\bDIR\b", "models/tiny"),
    (r"--requests FILE", "--requests tests/repository/requests.jsonl"),
    (r"--script FILE", "--script lessons/05_refcount_cow/scenarios/fork_and_copy.txt"),
    (r"conversation_trace\.jsonl", "instruments/replay/example.jsonl"),
    (r"/tmp/", "./"),
    (r"(course viz) N\b", r"\1 5"),
    (r"course viz$", "course viz 1"),
    (r"(course viz \w+)$", r"\1 --commands"),
    (r"(course planted .*)", r"\1 --programs"),
    (r"(course (?:plan|replay|watch|route|logits))( --record)?$", r"\1 --help"),
    (r"--max-tokens \d+", "--max-tokens 8"),
    (r"(course run(?: \d+)?)(?!.*--max-tokens)", r"\1 --max-tokens 8"),
]
REFUSED = r"--max-tokens 100 --num-blocks 4$"  # its text shows that: a pool that is too small


def lines_of(text):
    """Commands of one text."""
    for command, shown in re.findall(r"<!-- output: ([^\n]+?) -->\n```[a-z]*(.*?)\n```", text, re.S):
        if not refresh_outputs.is_compared(shown):
            yield from re.findall(r"\./course [^|;]*", command)
    text = re.sub(r"<!-- output: [^\n]+? -->\n```.*?\n```", "", text, flags=re.S)
    blocks = re.compile(r"^```[a-z]*\n(.*?)\n```", re.S | re.M)
    for block in blocks.findall(text):
        variables = "".join(line + "; " for line in re.findall(r"^\w+=(?!.*\./course).+", block, re.M))
        for line in re.findall(r".*\./course.*", block.replace("\\\n", " ")):
            yield (variables if "$" in line else "") + re.sub(r"\s{2,}# .*| # .*", "", line.strip().removeprefix("$ "))
    for span in re.findall(r"`([^`]*)`", re.sub(r"<!--.*?-->", "", blocks.sub("", text), flags=re.S)):
        if re.match(r"(\w+=\w+ )?\./course", span):
            yield span


def commands():
    """Each line once, with the text that it is in."""
    found = {}
    folders = ("*.md", "docs/*.md", "lessons/**/*.md", "kernels/**/*.md", "instruments/**/*.md", "models/*/*.md", "site/*.md")
    for path in sorted(path for pattern in folders for path in ROOT.glob(pattern)):
        for line in lines_of(path.read_text(encoding="utf-8")):
            found.setdefault(" ".join(line.split()), path.relative_to(ROOT))
    return found


def why_not(line):
    return next((why for pattern, why in NOT_RUN if re.search(pattern, line)), None)


def run(line, binaries):
    """What went wrong; empty if nothing did."""
    wanted = 2 if re.search(REFUSED, line) else 0
    for pattern, smaller in SMALLER if wanted == 0 else []:
        line = re.sub(pattern, smaller, line)
    words = refresh_outputs.command_of(line, binaries)
    words = re.sub(r"\./course planted", f"{sys.executable} tools/planted_bugs.py", words)
    words = re.sub(r"\./course (logits|tokenize|make-model|viz)\b", lambda m: f"{binaries}/{m[1].replace('-', '_')}", words)
    with tempfile.TemporaryDirectory() as folder:  # what a program writes goes there
        for path in ROOT.iterdir():
            os.symlink(path, pathlib.Path(folder, path.name))
        environment = {**os.environ, "KV_THREADS": "1", "COURSE_PRESET": ""}
        try:
            done = subprocess.run(["bash", "-c", words], cwd=folder, env=environment, text=True, errors="replace", timeout=300,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            return f"did not end: {words}"
    return "" if done.returncode == wanted else f"exit code {done.returncode}: {words}\n{done.stdout[-800:]}"


def main():
    parser = Parser(__doc__)
    parser.add_argument("--bin", type=lambda folder: pathlib.Path(folder).resolve(), required=True)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", default="", metavar="TEXT")
    options = parser.parse_args()
    lines = {line: path for line, path in commands().items() if options.only in line}
    if options.list:
        for line, path in lines.items():
            print(f"{path}: {line}  ({why_not(line) or 'runs'})")
        return 0
    shown = [line for line in lines if not why_not(line)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda line: run(line, options.bin), shown))
    for line, wrong in zip(shown, found):
        if wrong:
            print(f"{lines[line]}: {line}\n  {wrong}")
    print(f"{len(shown)} of {len(lines)} lines run, {sum(map(bool, found))} fail")
    return 1 if any(found) or not shown else 0


if __name__ == "__main__":
    end_with(main)
