"""A lesson's exercise: its steps, the learner's files, and what is kept about them.

lessons/NN_topic/exercise/README.md has the steps (`## 1. Title`), each with the functions to write, a text, a hint
and tests, and at the end `## Done`. docs/adding-a-lesson.md says how it is written."""
import dataclasses
import hashlib
import json
import pathlib
import re
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
BRACE = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\\n])'|[{}]""", re.S)
KEYWORDS = ("Hint", "Tests", "GPU tests")


class Mistake(Exception):
    """In what an exercise's author wrote; for the learner: in how the tool was called."""


def closing_brace(source, opened):
    depth = 0
    for token in BRACE.finditer(source, opened):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.start()
    raise Mistake("a brace is not closed")


@dataclasses.dataclass(frozen=True)
class Function:
    file: str
    begin: str  # of its definition, up to and with "("

    @property
    def name(self):
        return re.search(r"([\w:~]+)\($", re.sub(r"<.*?>", "", self.begin))[1]

    def span(self, source):
        """Where the definition begins, where its body does, and where the closing brace is."""
        pattern = r"^" + r"\s+".join(map(re.escape, self.begin.split()))
        spans = []
        for match in re.finditer(pattern, source, re.M):
            opened = re.compile(r"[;{]\n?").search(source, match.end())
            if opened and opened[0][0] == "{":
                spans.append((match.start(), opened.end(), closing_brace(source, opened.start())))
        if len(spans) != 1:
            raise Mistake(f"{self.file} has {len(spans)} definitions that begin with `{self.begin}`, wanted one")
        return spans[0]

    def text(self, source):
        start, _, close = self.span(source)
        return source[start : close + 1] + "\n"

    def line(self, source):
        return source.count("\n", 0, self.span(source)[0]) + 1


@dataclasses.dataclass
class Step:
    number: int
    title: str
    functions: list
    text: list  # paragraphs
    hint: str
    tests: list
    gpu_tests: list

    def __str__(self):
        return f"step {self.number}, {self.title}"

    @property
    def tool_tests(self):
        """GPU tests for --races and --bounds, which note something for each byte and thread: without those that would take minutes."""
        return [case for case in self.gpu_tests if not any(words in case for words in ("2^31", "than the grid has threads"))]


def sentence(title):
    """With a full stop, unless it is a question."""
    return title if title.endswith(("?", "!", ".")) else f"{title}."


def wrapped(paragraph, width):
    """Lines of a paragraph; lists, tables and code stay as they are."""
    if paragraph.startswith(("- ", "    ", "|", "```", "1. ")):
        return paragraph.splitlines()
    return textwrap.wrap(" ".join(paragraph.split()), width)


def plain(paragraph):
    """Without the marks of a link."""
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", paragraph)


def has_hole(text):
    """Whether something is still to be written; a comment may say so, too, and means nothing."""
    return "KV_TODO(" in re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)


def step_of(number, title, body):
    body = re.sub(r"<details><summary>Hint</summary>\s*(.*?)\s*</details>", r"Hint: \1", body, flags=re.S)  # folded where it is read
    paragraphs = [p.strip() for p in re.split(r"\n\s*\n|\n(?=(?:%s):)" % "|".join(KEYWORDS), body) if p.strip()]
    if not paragraphs:
        raise Mistake(f"step {number} is empty")
    functions, file = [], None
    for span in re.findall(r"`([^`]+)`", paragraphs[0]):
        if re.fullmatch(r"[\w/]+\.(cpp|cu|h)", span):
            file = span
        elif file:
            functions.append(Function(file, " ".join(span.split()).rstrip(")")))
    marked = {key: "" for key in KEYWORDS}
    text = []
    for paragraph in paragraphs[1:]:
        key, _, rest = paragraph.partition(":")
        if key in marked:
            marked[key] = " ".join(plain(rest).split())
        else:
            text.append(plain(paragraph))
    named = lambda key: re.findall(r'"([^"]+)"', marked[key])
    step = Step(number, title, functions, text, marked["Hint"], named("Tests"), named("GPU tests"))
    for what, there in (("functions", functions), ("text", text), ("Hint:", step.hint), ("Tests:", step.tests + step.gpu_tests)):
        if not there:
            raise Mistake(f"step {number} has no {what}")
    if any(not f.begin.endswith("(") for f in functions):
        raise Mistake(f"step {number}: a function is written with its brackets, as in `void f()`")
    return step


def number_of(backup):
    """Of the --reset that has put a file aside, which is called 0001_block_pool.cpp."""
    return int(backup.name.split("_")[0])


class Lesson:
    what = "exercise"  # the folder of the learner's files, and in the names of their programs

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.name = self.folder.name
        self.number = int(self.name[:2])
        self.target = f"lesson{self.name[:2]}"
        self.exercise = self.folder / self.what
        self.steps, self.done = [], ""
        for part in re.split(r"^## ", (self.folder / "exercise" / "README.md").read_text(encoding="utf-8"), flags=re.M)[1:]:
            title, body = part.split("\n", 1)
            if numbered := re.fullmatch(r"(\d+)\. (.+)", title.strip()):
                try:
                    self.steps.append(step_of(int(numbered[1]), numbered[2], body))
                except Mistake as mistake:
                    raise Mistake(f"{self.place('README.md')}: {mistake}") from None
            elif title.strip() == "Done":
                self.done = plain(body.strip())
        # What .progress.json holds. "races" and "bounds": kernels in which the tool has found nothing.
        self.kept = {"passed": {}, "failed": {}, "tested": {}, "races": {}, "bounds": {}, "hints": {}, "whole": ""}
        try:
            self.kept.update(json.loads((self.exercise / ".progress.json").read_text(encoding="utf-8")))
        except (OSError, ValueError):
            pass

    def keep(self):
        (self.exercise / ".progress.json").write_text(json.dumps(self.kept, indent=1) + "\n", encoding="utf-8")

    def files(self):
        return list(dict.fromkeys(f.file for step in self.steps for f in step.functions))

    def place(self, file):
        """A learner's file, as he would type it from the root of the repository."""
        return (self.exercise / file).relative_to(ROOT)

    def own_path(self, file):
        """Of the lesson's code, at eye level or in cli/."""
        path = self.folder / file
        return path if path.exists() else self.folder / "cli" / file

    def own(self, file):
        return self.own_path(file).read_text(encoding="utf-8")

    def written(self, file):
        """The learner's; empty if it is not there."""
        path = self.exercise / file
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def written_functions(self, step):
        """The learner's text of a step's functions, or of the whole file where one cannot be found."""
        for function in step.functions:
            source = self.written(function.file)
            try:
                yield function.text(source)
            except Mistake:
                yield source

    def is_unwritten(self, step):
        return any(has_hole(text) or not text for text in self.written_functions(step))

    def digest(self, step=None):
        """Of what the learner wrote for a step, with all that is beside it but the other steps' functions; or in all files."""
        files = dict.fromkeys(function.file for function in step.functions) if step else self.files()
        texts = [self.without_others(file, step) if step else self.written(file) for file in files]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]

    def without_others(self, file, step):
        source = self.written(file)
        for function in (function for other in self.steps if other is not step for function in other.functions if function.file == file):
            try:
                begin, _, end = function.span(source)
                source = source[:begin] + source[end + 1 :]
            except Mistake:
                pass  # not in the file any more, so all of it counts
        return source

    def passes(self, step):
        return self.kept["passed"].get(str(step.number)) == self.digest(step) and not self.is_unwritten(step)

    def tools_left(self, step):
        """Tools of the simulated GPU that have not looked at a step's kernels as they are now."""
        return [tool for tool in ("races", "bounds") if step.gpu_tests and self.kept[tool].get(str(step.number)) != self.digest(step)]

    def counts(self, step):
        return self.passes(step) and not self.tools_left(step)

    def num_passed(self):
        return sum(self.counts(step) for step in self.steps)

    def at(self, file, line):
        """(step, function) of a line of the learner's file; (None, None) if it is in no step's function."""
        source = self.written(file)
        for step in self.steps:
            for function in step.functions:
                try:
                    begin, _, end = function.span(source) if function.file == file else (1, 1, 0)
                except Mistake:
                    continue
                if source.count("\n", 0, begin) < line <= source.count("\n", 0, end) + 1 and begin < end:
                    return step, function
        return None, None

    def next_step(self):
        return next((step for step in self.steps if not self.counts(step)), None)

    # --- the learner's files

    def skeleton(self, file):
        source = self.own(file)
        for step in self.steps:
            text = step.text
            for function in step.functions:
                if function.file != file:
                    continue
                _, body, close = function.span(source)
                lines = [f"Step {step.number}: {sentence(step.title)}"]
                for paragraph in text:
                    lines += ["", *wrapped(paragraph, 94)]
                comment = "".join(f"  // {line}".rstrip() + "\n" for line in lines)
                source = f'{source[:body]}{comment}  KV_TODO("{function.name}");\n{source[close:]}'
                text = [f"What to write is at {function.name}()."] if text is step.text else text
        return '#include "common/todo.h"\n' + source

    def make(self):
        """Writes the skeletons that are missing; returns their paths."""
        made = [file for file in self.files() if not (self.exercise / file).exists()]
        for file in made:
            (self.exercise / file).write_text(self.skeleton(file), encoding="utf-8")
        return [self.place(file) for file in made]

    def backups(self):
        found = (self.exercise / "backup").glob("[0-9]*_*")
        return sorted(path for path in found if path.is_file())

    def reset(self, wanted):
        """Starts a file, or "all", over. What was there becomes the newest backup. Returns (file, what is kept) of each."""
        path = pathlib.Path(wanted)
        file = path.name
        if wanted != "all" and (file not in self.files() or path.parent.parts and path.resolve() != (self.exercise / file).resolve()):
            raise Mistake(f"'{wanted}' is no file of this exercise; these are: {', '.join(self.files())}, or all")
        files = [file for file in (self.files() if wanted == "all" else [file]) if self.written(file) not in ("", self.skeleton(file))]
        taken = map(number_of, (self.exercise / "backup").rglob("[0-9]*_*"))
        number = max(taken, default=0) + 1
        done = []
        for file in files:
            backup = self.exercise / "backup" / f"{number:04d}_{file}"
            backup.parent.mkdir(exist_ok=True)
            (self.exercise / file).rename(backup)
            done.append((self.place(file), backup.relative_to(ROOT)))
        self.make()
        return done

    def undo(self):
        """Undoes one --reset; what stood in its place is kept as well. Returns (file, what is kept) of each file."""
        backups = self.backups()
        if not backups:
            raise Mistake("there is nothing to undo: no --reset since the last --undo")
        last = [backup for backup in backups if number_of(backup) == number_of(backups[-1])]
        return self.put_back(last, self.exercise / "backup" / "undone")

    def redo(self):
        """Undoes the last --undo, if no --reset came after it. Returns (file, what is kept) of each file."""
        taken = max(map(number_of, self.backups()), default=0)
        undone = sorted(path for path in (self.exercise / "backup" / "undone").glob("[0-9]*_*") if number_of(path) > taken)
        if not undone:
            raise Mistake("there is nothing to redo: no --undo since the last --reset")
        first = [aside for aside in undone if number_of(aside) == number_of(undone[0])]
        return self.put_back(first, self.exercise / "backup")

    def put_back(self, kept, folder):
        """Kept files take their places again; what stood there goes into the folder. Returns (file, what is kept) of each."""
        folder.mkdir(exist_ok=True)
        done = []
        for path in kept:
            file, aside = self.exercise / path.name.split("_", 1)[1], folder / path.name
            if file.exists():
                file.rename(aside)
            path.rename(file)
            file.touch()  # newer than what was built from the other
            done.append((self.place(file), aside.relative_to(ROOT)))
        return done


def all_lessons():
    """Those that have an exercise in steps."""
    lessons = [Lesson(path.parent.parent) for path in sorted(ROOT.glob("lessons/[0-9][0-9]_*/exercise/README.md"))]
    return [lesson for lesson in lessons if lesson.steps]
