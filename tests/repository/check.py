#!/usr/bin/env python3
"""Rules of the repository that a script can see.

  check.py arrows    includes point down only; CUDA headers stay in CUDA files
  check.py quotes    code quoted in a text stands in the tested source, word for word
  check.py commands  every ./course command, file and link that a text names exists
  check.py promise   nothing that would let a compiler change the arithmetic
  check.py figures   the drawn diagrams are what their scripts draw
  check.py selftest  each rule above finds a planted violation

A rule prints one line per violation, `file:line: what`, and the script exits with 1.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = {".h", ".cpp", ".cu", ".cuh", ".inl"}


def files(root, suffixes, folders=None):
    """Paths relative to root, without build folders and hidden ones."""
    for path in sorted(root.rglob("*")):
        rel = path.relative_to(root)
        if rel.parts[0] in ("build", "out") or any(p.startswith(".") for p in rel.parts):
            continue
        if folders and rel.parts[0] not in folders:
            continue
        if path.is_file() and path.suffix in suffixes:
            yield rel


def numbered_lines(root, rel):
    text = (root / rel).read_text(encoding="utf-8", errors="replace")
    return list(enumerate(text.splitlines(), 1))


def arrows(root):
    """A lesson includes common/, kernels/ and earlier lessons; the rest knows no lesson."""
    for rel in files(root, CODE):
        top = rel.parts[0]
        own = re.match(r"(\d\d)_", rel.parts[1]) if top == "lessons" and len(rel.parts) > 2 else None
        for n, line in numbered_lines(root, rel):
            if top in ("common", "kernels", "viz") and re.search(r"lessons/|lesson\d\d", line):
                yield f"{rel}:{n}: {top}/ knows no lesson, but this line names one"
            include = re.match(r'\s*#\s*include\s+[<"]([^>"]+)[>"]', line)
            if not include:
                continue
            target = include.group(1)
            lesson = re.search(r"(\d\d)_[a-z0-9_]+/", target)
            if own and lesson and int(lesson.group(1)) > int(own.group(1)):
                yield f"{rel}:{n}: lesson {own.group(1)} includes the later lesson {lesson.group(1)}"
            if own and target.startswith("viz/") and not rel.name.startswith("page"):
                yield f"{rel}:{n}: only the page of a lesson (page.cpp, page_*) includes viz/"
            if top in ("common", "kernels") and target.startswith("viz/"):
                yield f"{rel}:{n}: {top}/ includes viz/"
            if re.match(r"cuda|cooperative_groups|mma\.h|cub/", target) and rel.suffix not in (".cu", ".cuh"):
                yield f"{rel}:{n}: the CUDA header {target} outside .cu and .cuh files"


def quotes(root):
    """`<!-- quote: FILE -->` is followed by a code block whose lines stand in FILE, in one piece."""
    for rel in files(root, {".md"}):
        lines = numbered_lines(root, rel)
        for i, (n, line) in enumerate(lines):
            mark = re.match(r"\s*<!-- quote: (\S+) -->", line)
            if not mark:
                continue
            source = root / mark.group(1)
            if not source.is_file():
                yield f"{rel}:{n}: quotes {mark.group(1)}, which does not exist"
                continue
            body = [text for _, text in lines[i + 1 :]]
            if not body or not body[0].startswith("```"):
                yield f"{rel}:{n}: a quote mark without a code block on the next line"
                continue
            end = next((k for k in range(1, len(body)) if body[k].startswith("```")), None)
            if end is None or end == 1:
                yield f"{rel}:{n}: an unfinished or empty quote"
                continue
            wanted = [text.rstrip() for text in body[1:end]]
            have = [text.rstrip() for text in source.read_text(encoding="utf-8").splitlines()]
            if not any(have[k : k + len(wanted)] == wanted for k in range(len(have))):
                yield f"{rel}:{n}: this quote is not in {mark.group(1)} any more"


def course_commands(root):
    script = (root / "course").read_text(encoding="utf-8")
    names = set()
    for match in re.finditer(r"^  ([a-z][a-z| -]*)\)", script, re.M):
        names.update(word.strip() for word in match.group(1).split("|"))
    return names


def commands(root):
    """Texts name only what is there: ./course commands, lessons, local links, source files."""
    known = course_commands(root)
    lessons = {int(p.name[:2]) for p in (root / "lessons").glob("[0-9][0-9]_*") if p.is_dir()}
    for rel in files(root, {".md"}):
        folder = (root / rel).parent
        in_code = False  # a quoted lambda looks like a link
        for n, line in numbered_lines(root, rel):
            in_code ^= line.lstrip().startswith("```")
            for match in re.finditer(r"\./course ([a-z-]+)(?: (\d+))?", line):
                if match.group(1) not in known:
                    yield f"{rel}:{n}: there is no command ./course {match.group(1)}"
                elif match.group(1) in ("run", "test", "bench") and match.group(2):
                    if int(match.group(2)) not in lessons:
                        yield f"{rel}:{n}: there is no lesson {match.group(2)}"
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", line) + re.findall(r'src="([^"]+)"', line):
                if in_code or re.match(r"[a-z]+:", target):
                    continue
                if not (folder / target).exists():
                    yield f"{rel}:{n}: the link {target} leads nowhere"
            for target in re.findall(r"`((?:common|kernels|lessons|tests|tools|docs|cmake|models)/[\w./-]+\.\w+)`", line):
                if not (root / target).exists():
                    yield f"{rel}:{n}: {target} does not exist"


def promise(root):
    """No flag that lets a compiler reorder or fuse arithmetic by itself."""
    flag = re.compile(r"-ffast-math|use_fast_math|-Ofast|-funsafe-math|-march=native|associative-math")
    for rel in files(root, {".txt", ".cmake", ".json", ".sh", ".cpp", ".h", ".cu", ".cuh"}):
        if rel.parts[0] == "tests":
            continue
        for n, line in numbered_lines(root, rel):
            found = flag.search(line.split("#")[0] if rel.suffix in (".txt", ".cmake", ".sh") else line)
            if found and not line.lstrip().startswith("//"):
                yield f"{rel}:{n}: {found.group(0)} breaks the promise of equal bits"


def figures(root):
    """Drawing the diagrams again gives the files that are checked in."""
    script = root / "tools" / "figures" / "all.py"
    if not script.exists():
        return
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([sys.executable, str(script), "--out", out], check=True, cwd=root,
                       stdout=subprocess.DEVNULL)
        drawn = sorted(pathlib.Path(out).glob("*.svg"))
        if not drawn:
            yield f"{script.relative_to(root)}:1: drew nothing"
        for path in drawn:
            kept = root / "docs" / "figures" / path.name
            if not kept.exists() or kept.read_bytes() != path.read_bytes():
                yield f"docs/figures/{path.name}:1: not what tools/figures/all.py draws; run it and commit"


RULES = {"arrows": arrows, "quotes": quotes, "commands": commands, "promise": promise, "figures": figures}


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def selftest():
    """Plants one violation at a time in an otherwise clean tree."""
    planted = [
        ("arrows", "lessons/02_b/x.cpp", '#include "lessons/03_c/y.h"\n'),
        ("arrows", "common/x.h", '#include "lessons/01_a/y.h"\n'),
        ("arrows", "kernels/x.cpp", "// as lesson01 does\n"),
        ("arrows", "common/x.cpp", "#include <cuda_runtime.h>\n"),
        ("arrows", "lessons/01_a/engine.cpp", '#include "viz/pool.h"\n'),
        ("quotes", "lessons/01_a/README.md", "<!-- quote: lessons/01_a/ok.h -->\n```cpp\nint b;\n```\n"),
        ("quotes", "lessons/01_a/README.md", "<!-- quote: lessons/01_a/gone.h -->\n```cpp\nint a;\n```\n"),
        ("quotes", "lessons/01_a/README.md", "<!-- quote: lessons/01_a/ok.h -->\ntext\n"),
        ("commands", "README.md", "`./course fly`\n"),
        ("commands", "README.md", "`./course run 7`\n"),
        ("commands", "README.md", "[x](docs/none.md)\n"),
        ("commands", "README.md", "`common/none.h`\n"),
        ("promise", "CMakeLists.txt", "add_compile_options(-ffast-math)\n"),
    ]
    clean = {
        "course": 'case "$1" in\n  run | test) ;;\nesac\n',
        "lessons/01_a/ok.h": "int a;\n",
        "lessons/02_b/ok.h": '#include "lessons/01_a/ok.h"\n',
        "README.md": "`./course run 1` [ok](lessons/01_a/ok.h)\n",
        "lessons/02_b/README.md": "<!-- quote: lessons/01_a/ok.h -->\n```cpp\nint a;\n```\n",
    }
    for rule, name, text in planted + [(rule, None, None) for rule in ("arrows", "quotes", "commands", "promise")]:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, content in clean.items():
                write(root, path, content)
            if name:
                write(root, name, text)
            found = list(RULES[rule](root))
            if bool(found) != bool(name):
                yield f"check.py:1: rule {rule} {'missed' if name else 'invented'}: {text or found}"


def main():
    wanted = sys.argv[1:]
    if len(wanted) != 1 or wanted[0] not in [*RULES, "selftest"]:
        print(__doc__, file=sys.stderr)
        return 2
    violations = list(selftest() if wanted[0] == "selftest" else RULES[wanted[0]](ROOT))
    for line in violations:
        print(line)
    print(f"{wanted[0]}: {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
