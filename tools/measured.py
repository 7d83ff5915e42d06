#!/usr/bin/env python3
"""What was measured, where and when: docs/figures/data/*.json, and the texts that show it.

  ./course stale                             lists what is older than the code it measures; exits with 1 if anything is
  tools/measured.py record COMMAND FILE      records stdin as the output of COMMAND, and what its --json FILE says

A file of docs/figures/data has these keys; a benchmark adds what its plot needs (--json):

  device, commit, date, command   where it was measured, of which code, when, and how
  measures                        what the paths of that code begin with; [] for code that was never kept: history, not stale
  printed                         lines as they were printed, or as a text shows them
  values                          single numbers: from what each one is to a number or a list of them

`<!-- from docs/figures/data/NAME.json -->` above a code block, a table or a paragraph names the file, or several of
them. `check.py numbers` compares. `record`, which ./course bench calls, looks for the file with this COMMAND (of a
model's folder it only knows `DIR`), and puts the new lines into the texts instead of the old ones.
"""
import datetime
import functools
import json
import pathlib
import re
import subprocess
import sys

import course_arguments

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA = ROOT / "docs" / "figures" / "data"
CODE = ("*.cu", "*.cuh", "*.h", "*.cpp", ":!*/test/*", ":!*/page/*", ":!*/exercise/*")


def git(*words, fails=None):
    """What git prints, or `fails` if it fails; without `fails` that is an error."""
    done = subprocess.run(["git", *words], cwd=ROOT, text=True, capture_output=True)
    if done.returncode and fails is None:
        course_arguments.die(f"git {' '.join(words)}: {done.stderr.strip()}")
    return fails if done.returncode else done.stdout.strip()


def load(path):
    return json.loads(path.read_text(encoding="utf-8"))


def code_of(hunk, sign):
    """The code of a hunk's lines with this sign, without spaces, comments and includes."""
    return [code for row in hunk.splitlines() if row[0] == sign and (code := re.sub(r"(?<!:)//.*|^.#include.*|\s", "", row)[1:])]


@functools.cache
def changed_since(commit):
    """Lines of code that are new or gone since a commit, by file. Moves, comments, line breaks and includes do not count.
    None if this clone lacks the commit."""
    if git("cat-file", "-t", commit, fails="") != "commit":
        return None
    lines = {}
    for file in re.split(r"^diff --git ", git("diff", "-U0", "-M", "-l0", "-w", commit, "HEAD", "--", *CODE), flags=re.M)[1:]:
        head, *hunks = re.split(r"^@@.*\n", file, flags=re.M)
        path = head.split("\n")[0].split(" b/")[-1]  # where it is now
        changes = [(code_of(hunk, "-"), code_of(hunk, "+")) for hunk in hunks]
        lines[path] = sum(len(old) + len(new) for old, new in changes if "".join(old) != "".join(new))
    return lines


def stale():
    """Names each file whose code has changed since its commit, with the texts that show its numbers."""
    files = [path for path in sorted(DATA.glob("*.json")) if load(path)["measures"]]
    texts = {text: text.read_text(encoding="utf-8") for text in sorted(ROOT.glob("[!.b]*/**/*.md")) if "node_modules" not in text.parts}
    num_stale = num_unknown = 0
    for path in files:
        data = load(path)
        lines = changed_since(data["commit"])
        if lines is None:
            num_unknown += 1
            print(course_arguments.fitted(f"{path.relative_to(ROOT)}: this clone lacks its commit, {data['commit']}"))
            continue
        changed = {name: n for name, n in lines.items() if n and name.startswith(tuple(data["measures"])) and (ROOT / name).exists()}
        if not changed:
            continue
        num_stale += 1
        shown = [str(text.relative_to(ROOT)) for text, words in texts.items() if path.name in words]
        most = sorted(changed, key=changed.get, reverse=True)[:3]
        print(course_arguments.fitted(f"{path.relative_to(ROOT)}\n"
              f"  measured  {data['date']}, {data['commit']}, on {data['device']}\n"
              f"  command   {data['command']}\n"
              f"  shown in  {', '.join(shown) or 'a figure'}\n"
              f"  since     {sum(changed.values())} lines, most in {', '.join(most)}"))
    print(f"{num_stale} of {len(files)} files are older than the code that they measure")
    if num_unknown:
        print(course_arguments.fitted(f"{num_unknown} cannot be told: wanted the whole history (git fetch --unshallow)"))
    return 1 if num_stale or num_unknown else 0


def fill(name, old, new):
    """Where a text shows lines of `old` it shows those of `new` afterwards. What has another length now is left alone."""
    block = re.compile(rf"(<!-- from docs/figures/data/{name} -->\n```\n)(.*?)(\n```)", re.S)

    def fresh(match):
        shown = match[2].splitlines()
        for begin in range(len(old)):
            if old[begin : begin + len(shown)] == shown and len(old) == len(new):
                return match[1] + "\n".join(new[begin : begin + len(shown)]) + match[3]
        print(f"{name}: put the new lines in by hand, instead of {shown[0]}...", file=sys.stderr)
        return match[0]

    for path in ROOT.glob("[!.b]*/**/*.md"):
        text = path.read_text(encoding="utf-8")
        if (filled := block.sub(fresh, text)) != text:
            path.write_text(filled, encoding="utf-8")


def record(command, json_file):
    """Keeps the lines on stdin as the output of COMMAND, and puts them into the texts."""
    printed = sys.stdin.read().strip("\n").splitlines()
    fresh = load(pathlib.Path(json_file))
    command = re.sub(r"(--model) \S+", r"\1 DIR", command.strip())
    device = "cuda" if "sm_" in fresh.get("device", "") else "cpu"
    same = {command, re.sub(r"(course bench \d+)", rf"\1 --device {device}", command)}
    path = next((path for path in sorted(DATA.glob("*.json")) if load(path)["command"] in same), None)
    if path is None:
        print(f"no file of docs/figures/data has this command, and no text its output: {command}", file=sys.stderr)
        return
    old = load(path)
    data = {key: fresh.get(key, value) for key, value in old.items()}
    data.pop("values", None)  # they were of the old lines
    data |= {"commit": git("rev-parse", "--short", "HEAD"), "date": f"{datetime.date.today()}", "printed": printed}
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    fill(path.name, old["printed"], printed)
    print(f"recorded in {path.relative_to(ROOT)}", file=sys.stderr)


def main():
    if sys.argv[1:] == ["stale"]:
        return stale()
    if len(sys.argv) == 4 and sys.argv[1] == "record":
        return record(*sys.argv[2:])
    print(course_arguments.fitted(__doc__))
    return 0 if "--help" in sys.argv else 2


if __name__ == "__main__":
    course_arguments.end_with(main)
