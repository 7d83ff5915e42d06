#!/usr/bin/env python3
"""Lines of each area of the repository, which only fall (tests/repository/budget.txt).

  budget.py          compares: exit code 1 if an area has more lines than its number there
  budget.py --lower  lowers the numbers of areas that have fewer, and gives new areas theirs

A lesson's `core` is its code at eye level but main.cpp, and what that includes from folders below, of any lesson. Its `page`
counts with the files of viz/ that nothing else uses. A new wing names in its commit the one it replaces, and takes its number.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUDGET = "tests/repository/budget.txt"
KINDS = {"C++": {".h", ".cpp", ".cu", ".cuh", ".inl"}, "Python": {".py"}, "JavaScript": {".mjs", ".js", ".ts", ".vue", ".html", ".css"},
         "bash": {".sh"}, "CMake": {".cmake"}}


def kind_of(rel):
    path = rel.as_posix()
    if rel.name == "bugs.txt":
        return "bugs"
    if path in ("course", ".ci/run"):
        return "bash"
    if rel.name == "CMakeLists.txt":
        return "CMake"
    return next((kind for kind, ends in KINDS.items() if rel.suffix in ends), None)


def files(root):
    """What is counted, relative to root: neither builds nor a learner's files."""
    for path in sorted(root.rglob("*")):
        rel = path.relative_to(root)
        hidden = any(part.startswith(".") and part != ".ci" or part == "node_modules" for part in rel.parts)
        if rel.parts[0] in ("build", "out") or hidden or {"exercise", "repair"} & set(rel.parts[:-1]) or not path.is_file():
            continue
        if kind_of(rel):
            yield rel.as_posix()


def place_of(path):
    """The area of a file by its folder alone."""
    kind, parts = kind_of(pathlib.PurePath(path)), path.split("/")
    if kind != "C++":
        return f"{kind} {parts[0] if kind == 'Python' else 'all'}"
    if parts[0] == "lessons":
        below = parts[2] if len(parts) > 3 else "main" if parts[2] == "main.cpp" else "core"
        return f"{parts[0]}/{parts[1]} {below if below in ('core', 'page', 'test') else 'programs'}"
    if parts[0] == "instruments":
        return f"{parts[0]}/{parts[1]} {parts[2] if parts[2] in ('page', 'test') else 'code'}"
    return f"{parts[0]} page" if parts[:2] == ["simt", "page"] else parts[0]


def includes(root, path, known):
    """The headers that a file includes, each with its .cpp and .cu."""
    text = (root / path).read_text(encoding="utf-8", errors="replace")
    folder, lesson = path.rsplit("/", 1)[0], "/".join(path.split("/")[:2])
    for name in re.findall(r'^\s*#\s*include "([^"]+)"', text, re.M):
        found = next((place for place in (name, f"{lesson}/{name}", f"{folder}/{name}") if place in known), None)
        if found:
            stem = found.rsplit(".", 1)[0]
            yield from (twin for twin in (found, stem + ".cpp", stem + ".cu") if twin in known)


def areas(root):
    """Lines by area."""
    place = {path: place_of(path) for path in files(root)}
    used = {path: set(includes(root, path, place)) for path in place if kind_of(pathlib.PurePath(path)) == "C++"}
    for core in sorted({area for area in place.values() if area.endswith(" core")}):
        todo = [path for path in place if place[path] == core]
        while todo:
            for path in used[todo.pop()]:
                if path.startswith("lessons/") and place[path].split()[-1] in ("programs", "page"):
                    place[path] = core
                    todo.append(path)
    moved = True
    while moved:  # files of viz/ that one page alone uses
        moved = False
        for path in [path for path in place if place[path] == "viz" and path.endswith(".h")]:
            unit = {path} | {path[:-2] + end for end in (".cpp", ".cu")}
            users = {place[user] for user in used if path in used[user] and user not in unit}
            users = {area for area in users if area != "tests" and not area.endswith(" test")}
            if len(users) == 1 and (area := users.pop()).endswith(" page"):
                place.update({file: area for file in unit & place.keys()})
                moved = True
    lines = {}
    for path, area in place.items():
        lines[area] = lines.get(area, 0) + (root / path).read_bytes().count(b"\n")
    return lines


def allowed(root):
    text = (root / BUDGET).read_text(encoding="utf-8") if (root / BUDGET).exists() else ""
    return {area: int(number) for number, area in re.findall(r"^(\d+)  (.+)$", text, re.M)}


def budget(root):
    """No area has more lines than its number in tests/repository/budget.txt."""
    budgets = allowed(root)
    if not budgets:
        return
    for area, lines in areas(root).items():
        if lines > budgets.get(area, 0):
            yield (f"{BUDGET}:1: {area} has {lines} lines, wanted {budgets.get(area, 0)} at most: take some out, or let the commit "
                   "say which other area's lines these replace, and move their number")


def lower(root):
    budgets = allowed(root)
    now = {area: min(lines, budgets.get(area, lines)) for area, lines in areas(root).items()}
    (root / BUDGET).write_text("".join(f"{number}  {area}\n" for area, number in sorted(now.items())), encoding="utf-8")
    return sum(number - now.get(area, 0) for area, number in budgets.items())


def main():
    if sys.argv[1:] == ["--lower"]:
        print(f"{lower(ROOT)} lines fewer")
        return 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    now, budgets, sums = areas(ROOT), allowed(ROOT), {}
    for area, lines in now.items():
        kind = area.split()[0] if area.split()[0] in (*KINDS, "bugs") else "C++"
        sums[kind] = sums.get(kind, 0) + lines
    print("  ".join(f"{kind} {lines:,}" for kind, lines in sums.items()))
    fewer = sum(budgets.get(area, 0) - lines for area, lines in now.items() if lines < budgets.get(area, 0))
    if fewer:
        print(f"{fewer} lines fewer than allowed: tools/budget.py --lower")
    violations = list(budget(ROOT))
    print(*violations, sep="\n", end="\n" if violations else "")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
