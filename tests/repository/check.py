#!/usr/bin/env python3
"""Rules of the repository that a script can see.

  check.py arrows    includes and links point down only; CUDA headers stay in CUDA files
  check.py house     no const_cast; a lesson's folder shows the lesson: few files, known folders, short kernels in
                     plain CUDA, no tests
  check.py budget    no area has more lines than its number in tests/repository/budget.txt, which tools/budget.py lowers
  check.py quotes    code quoted in a text is in the tested source, word for word
  check.py numbers   a number with a unit is in what a command of the text printed, or in docs/figures/data
  check.py commands  every ./course command, file and link that a text names exists
  check.py answers   each prediction that a lesson asks for has its answer folded below it
  check.py solutions no text shows what an exercise asks for, except folded away
  check.py hooks     nothing is in a lesson for the sake of a later one
  check.py browser   the visualizer and what it shows use of std::ranges only what a browser's build has
  check.py promise   nothing that would let a compiler change the arithmetic
  check.py figures   the drawn diagrams are what their scripts draw, and in a text; all pictures can be read on a phone
  check.py selftest  each rule above finds a planted violation

A rule prints one line per violation, `file:line: what`, and the script exits with 1.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

import hooks
import quantities
import selftest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from budget import budget  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CODE = {".h", ".cpp", ".cu", ".cuh"}
EYE_LEVEL = 15  # files of a lesson's folder itself
LESSON_FOLDERS = {"page", "bench", "cli", "test", "exercise", "repair", "scenarios", "road"}
PHONE, LETTERS = 360, 6.75  # pixels: a phone's width, and the least size of a letter on it
SCREEN = 730  # points: the tallest picture of a page that a laptop shows at once
KERNEL_LINES = 70  # of a kernel in a lesson: what a reader follows from top to bottom


def files(root, suffixes, folders=None):
    """Paths relative to root, without build folders and hidden ones."""
    for path in sorted(root.rglob("*")):
        rel = path.relative_to(root)
        if rel.parts[0] in ("build", "out") or any(p.startswith(".") or p == "node_modules" for p in rel.parts):
            continue
        if folders and rel.parts[0] not in folders:
            continue
        if path.is_file() and path.suffix in suffixes:
            yield rel


def numbered_lines(root, rel):
    text = (root / rel).read_text(encoding="utf-8", errors="replace")
    return list(enumerate(text.splitlines(), 1))


# From below: a file includes its own floor and those below it, and a target links them.
FLOORS = ["common", "kernels", "qwen3", "programs", "viz", "simt", "lessons", "instruments", "tests tools site"]
TARGETS = {"common": "common/", "kernels": "kernels/", "qwen3": "qwen3/", "programs": "programs/",
           "viz": "viz/", "pages": "viz/", "watch": "instruments/", "event_log": "instruments/", "serve": "instruments/", "load": "instruments/", "route": "instruments/", "traces": "instruments/", "ladder": "tests/"}


def floor_of(path):
    """A number, or None for what is not ours. The tests of a lesson stand with the other tests."""
    if re.match(r"(lessons|instruments)/\w+/test/", path):
        return len(FLOORS) - 1
    for height, folders in enumerate(FLOORS):
        if path.startswith(tuple(folder + "/" for folder in folders.split())):
            return height


def targets_of(line, is_cmake):
    """What a line includes or links, as paths that begin with their floor."""
    if not is_cmake:
        return re.findall(r'^\s*#\s*include\s+"([^"]+)"', line)
    line = line.split("#")[0]
    libraries = re.findall(rf"\bkv(?:::|_)({'|'.join(TARGETS)})\b", line)
    lessons = re.findall(r"\bkv_lesson(\d\d)\b", line)
    return [TARGETS[name] for name in libraries] + [f"lessons/{number}_" for number in lessons] + re.findall(
        r"\b(?:tests|tools)/", line)


def wrong_arrow(path, target):
    """Why `path` may not include or link `target`; None if it may."""
    mine, other = (re.match(r"lessons/(\d\d)_", p) for p in (path, target))
    if (floor_of(target) or 0) > floor_of(path):
        return f"an arrow up, from {path.split('/')[0]}/ to {target}"
    if path.startswith("tools/") and other:
        return "tools/ maintains the repository and links no lesson"
    if mine and other and other.group(1) > mine.group(1):
        return f"lesson {mine.group(1)} uses the later lesson {other.group(1)}"
    if mine and other and other.group(1) < mine.group(1) and target.endswith(".cuh"):
        return f"lesson {mine.group(1)} includes a .cuh of lesson {other.group(1)}: what two lessons share is kernels/"
    if path.endswith((".cpp", ".h")) and floor_of(path) == floor_of("lessons/") and target.startswith("viz/"):
        if "/page/" not in path:
            return "only the page of a lesson (page/) includes viz/"


def arrows(root):
    """What is below knows nothing of what is above; a lesson knows earlier lessons alone."""
    for rel in files(root, CODE | {".txt"}):
        path, is_cmake = rel.as_posix(), rel.name == "CMakeLists.txt"
        if floor_of(path) is None or (rel.suffix == ".txt" and not is_cmake):
            continue
        for n, line in numbered_lines(root, rel):
            for target in targets_of(line, is_cmake):
                if why := wrong_arrow(path, target):
                    yield f"{rel}:{n}: {why}"
            if floor_of(path) < floor_of("lessons/") and re.search(r"lessons/|lesson\d\d", line):
                yield f"{rel}:{n}: {rel.parts[0]}/ knows no lesson, but this line names one"
            if rel.parts[0] != "simt" and rel.suffix in (".h", ".cpp") and re.match(r"\s*#\s*include\s+<(cuda|cooperative_groups|mma\.h|cub/)", line):
                yield f"{rel}:{n}: a CUDA header outside .cu and .cuh files"


def house(root):
    """Nowhere is const taken back. A lesson's folder shows the lesson: short kernels in plain CUDA, and no tests."""
    for lesson in sorted(path for path in root.glob("lessons/[0-9][0-9]_*") if path.is_dir()):
        rel = lesson.relative_to(root)
        shown = [path for path in lesson.iterdir() if path.is_file() and path.suffix != ".md" and not path.name.startswith(".")]
        if len(shown) > EYE_LEVEL:
            yield f"{rel}:1: {len(shown)} files at eye level, wanted {EYE_LEVEL} at most: what main.cpp alone needs is in cli/"
        if not any(path.suffix == ".cu" for path in shown):
            yield f"{rel}:1: no CUDA kernel at eye level: a lesson shows what it introduces"
        for path in lesson.iterdir():
            if path.is_dir() and path.name not in LESSON_FOLDERS:
                yield f"{rel}/{path.name}:1: a lesson has the folders {', '.join(sorted(LESSON_FOLDERS))}"
    for rel in files(root, CODE):
        if floor_of(rel.as_posix()) == floor_of("tests/"):
            continue
        for n, line in numbered_lines(root, rel):
            if "const_cast" in line:
                yield f"{rel}:{n}: const_cast: let the caller have what it may change"
        if rel.parts[0] != "lessons" or rel.parts[2] in ("exercise", "repair", "road"):
            continue
        if "_test." in rel.name:
            yield f"{rel}:1: the tests of a lesson stand in its folder test/"
        text = (root / rel).read_text(encoding="utf-8")
        for asm in re.finditer(r"^[^/\n]*\basm\b", text, re.M):
            yield f"{rel}:{text.count(chr(10), 0, asm.end()) + 1}: inline PTX in a lesson, wanted in kernels/ or a road/"
        for kernel in re.finditer(r"^__global__.*?^}", text, re.M | re.S):
            if (lines := kernel.group().count("\n") + 1) > KERNEL_LINES:
                yield f"{rel}:{text.count(chr(10), 0, kernel.start()) + 1}: a kernel of {lines} lines, wanted {KERNEL_LINES} at most"


def quotes(root):
    """`<!-- quote: FILE -->` is followed by a code block whose lines stand in FILE, in one piece."""
    yield from listed_lines(root)
    for rel in files(root, {".md"}):
        for n, marks, kind, lines in quantities.blocks((root / rel).read_text(encoding="utf-8")):
            for source in (mark.removeprefix("quote: ") for mark in marks if mark.startswith("quote: ")):
                if not (root / source).is_file():
                    yield f"{rel}:{n}: quotes {source}, which does not exist"
                elif kind != "code" or not lines:
                    yield f"{rel}:{n}: a quote mark without a code block on the next line"
                elif not quantities.stand_in(lines, (root / source).read_text(encoding="utf-8").splitlines()):
                    yield f"{rel}:{n}: this quote is not in {source} any more"


def listed_lines(root):
    """A listing of `./course kernel N --traffic` names a line of a kernel's file and shows how it begins."""
    for rel in files(root, {".md"}):
        lesson = source = None
        for n, line in numbered_lines(root, rel):
            if heading := re.match(r"Lesson (\d+)'s kernels on the simulated GPU", line):
                lesson = next(iter(root.glob(f"lessons/{int(heading[1]):02d}_*")), None)
            elif heading := re.match(r"\w+_kernel, (\w+\.cu), \d+ launches", line):
                source = lesson / heading[1] if lesson else None
            elif line.startswith("```"):
                source = None
            elif source and (row := re.match(r" +(\d+)  (?:load|store) \d+ .* %  (\S.*)", line)):
                code = source.read_text(encoding="utf-8").splitlines() if source.is_file() else []
                if not "".join(code[int(row[1]) - 1 : int(row[1])]).strip().startswith(row[2].rstrip()):
                    yield f"{rel}:{n}: line {row[1]} of {source.name} does not begin so any more; run the command above again"


def taken_out(folder):
    """The lines that a lesson's exercise takes out of its files, but those too short to give anything away."""
    from exercises.lesson import Lesson, Mistake
    try:
        lesson = Lesson(folder)
        functions = [function for step in lesson.steps for function in step.functions]
        spans = [(function, function.span(lesson.own(function.file))) for function in functions]
    except Mistake:
        return  # tools/exercise.py check --places says so
    for function, (_, begin, end) in spans:
        for line in map(str.strip, lesson.own(function.file)[begin:end].splitlines()):
            if len(line) >= 12 and not line.startswith("//"):
                yield line, function.name


def solutions(root):
    """A lesson's text quotes no line that its exercise takes out, outside <details>."""
    for exercise in sorted(root.glob("lessons/*/exercise/README.md")):
        taken = dict(taken_out(exercise.parents[1]))
        for path in (exercise.parents[1] / "README.md", exercise.parents[1] / "gpu.md", exercise):
            rel = path.relative_to(root)
            in_code = folded = False
            for n, line in numbered_lines(root, rel) if path.exists() else ():
                folded = (folded or "<details>" in line) and "</details>" not in line
                in_code ^= line.lstrip().startswith("```")
                if in_code and not folded and line.strip() in taken:
                    yield f"{rel}:{n}: this line of {taken[line.strip()]}() is for the reader to write: fold it away"


def course_commands(root):
    table = (root / "tools/course.py").read_text(encoding="utf-8")
    return {"help", *re.findall(r'^ +Command\("([a-z-]+)"', table, re.M)}


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


def answers(root):
    """Under `## Predict` each question, `**1.** ..`, has its folded answer right below it; the site
    (site/.vitepress/markdown/questions.mjs) shows the answer after the reader's own."""
    for path in sorted(root.glob("lessons/*/README.md")):
        rel = path.relative_to(root)
        section = re.search(r"^## Predict\n(.*?)(?=^## |\Z)", path.read_text(encoding="utf-8"), re.M | re.S)
        if not section:
            continue
        found = re.findall(r"^\*\*(\d+)\.\*\* |^(<details><summary>Answer</summary>\n\n(?!</details>)\S)", section[1], re.M)
        wanted = [pair for n in range(1, len(found) // 2 + 1) for pair in (str(n), "")]
        if not found or [number for number, _ in found] != wanted:
            yield f"{rel}:1: under `## Predict` wanted `**1.** question`, `<details><summary>Answer</summary>`, `**2.** question`, ..."


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


def browser(root):
    """Debian's emscripten knows of std::ranges what cmake/web/missing_std.h gives it; Clang 14 knows no std::views."""
    has = (root / "cmake/web/missing_std.h").read_text(encoding="utf-8")
    for rel in files(root, {".h", ".cpp"}, {"common", "kernels", "qwen3", "programs", "viz", "lessons", "instruments"}):
        if "test" in rel.parts:
            continue
        for n, line in numbered_lines(root, rel):
            for name in re.findall(r"std::(?:ranges|views)::(\w+)", line):
                if not re.search(rf"\b{name}\b", has):
                    yield f"{rel}:{n}: cmake/web/missing_std.h does not have {name}"


def smallest_letters(svg):
    """Of the words of a picture, in pixels on a phone of 360; None if it has no words."""
    sizes = []

    def walk(element, size, scale):
        size = float(element.get("font-size", size))
        for factor in re.findall(r"scale\(([\d.]+)", element.get("transform", "")):
            scale *= float(factor)
        if element.tag.endswith(("}text", "}tspan")) and (element.text or "").strip():
            sizes.append(size * scale)
        for child in element:
            walk(child, size, scale)

    walk(svg, 16, 1)
    return min(sizes, default=0) * PHONE / float(svg.get("viewBox").split()[2]) or None


def figures(root):
    """Drawing the diagrams again gives the files that are checked in. A text shows each. On a phone all words of all pictures can be read."""
    texts = "".join((root / rel).read_text(encoding="utf-8") for rel in files(root, {".md"}))
    for path in sorted(root.glob("docs/figures/*.svg")):
        if not path.name.startswith("viz_") and f"/{path.name}" not in texts:
            yield f"{path.relative_to(root)}:1: no text shows it"
        try:
            letters = smallest_letters(svg := xml.etree.ElementTree.parse(path).getroot())
        except xml.etree.ElementTree.ParseError:
            continue  # not a picture
        if path.name.startswith("viz_") and float(svg.get("viewBox").split()[3]) > SCREEN:
            yield f"{path.relative_to(root)}:1: taller than {SCREEN} points, which a laptop shows at once"
        if letters and letters < LETTERS:
            yield f"{path.relative_to(root)}:1: letters of {letters:.2f} pixels on a phone of {PHONE}, wanted {LETTERS} or more"
    script = root / "tools" / "figures" / "all.py"
    if not script.exists():
        return
    with tempfile.TemporaryDirectory() as out:
        done = subprocess.run([sys.executable, str(script), "--out", out], cwd=root, text=True, stdout=subprocess.PIPE)
        yield from done.stdout.splitlines()
        if done.returncode:
            yield f"{script.relative_to(root)}:1: failed"
        drawn = sorted(pathlib.Path(out).glob("*.svg"))
        if not drawn:
            yield f"{script.relative_to(root)}:1: drew nothing"
        for path in drawn:
            kept = root / "docs" / "figures" / path.name
            if not kept.exists() or kept.read_bytes() != path.read_bytes():
                yield f"docs/figures/{path.name}:1: not what tools/figures/all.py draws; run it and commit"


RULES = {"arrows": arrows, "house": house, "quotes": quotes, "numbers": quantities.numbers, "commands": commands,
         "solutions": solutions, "answers": answers, "promise": promise, "browser": browser, "hooks": hooks.hooks,
         "figures": figures, "budget": budget}


def main():
    wanted = sys.argv[1:]
    if len(wanted) != 1 or wanted[0] not in [*RULES, "selftest"]:
        print(__doc__, file=sys.stderr)
        return 2
    violations = list(selftest.selftest(RULES) if wanted[0] == "selftest" else RULES[wanted[0]](ROOT))
    for line in violations:
        print(line)
    print(f"{wanted[0]}: {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
