"""The list of bugs of a lesson or a program, test/bugs.txt: between empty lines a paragraph for each.

    block_pool.cpp: the block freed first comes first
    - return free_.back();
    + return free_.front();
    says: found +0
    easy: Two requests get the same block.

The file's name is meant from the folder above test/, or from the repository's root. The code after the minus signs is in
the file exactly once (spaces and line ends do not count); what is after the plus signs takes its place.

With `says:` the bug is a mistake in a step of the lesson's exercise. The step's tests must find it, and what the learner
is shown must match (tools/exercise.py check). More lines that such a bug may have:

    found by: races            (bounds, divergence) the simulated GPU must find it, instead of the tests; `launch rule` is
                               launch.cuh's first rule, which no test can see
    also found by: tests       it is planted in the whole lesson, too, and found by what follows
    easy: The text falls apart.  (middle:, hard:) what a user says of it: ./course repair gives the bug to learners

Without `says:` the bug is planted in the whole code (./course planted):

    found by: races, "fork*"   who must find it, and in which test cases: races, bounds, divergence (a barrier or a shuffle
                               that some threads miss) or results (a test that fails). No such line: the tests on the CPU
    in: fast.cu                the file that is compiled, if the bug is in a header

What a generated mutant is, too, needs no entry. The tests are lessonNN_test, or the programs of the last paragraph `tests: PROGRAM ...` before it, the first one first.
In kernels it is the first one's *_gpu_test.

Mutants that may survive (tools/exercise.py mutants) stand at the end, below a line `survivors:`, two lines for each:

    block_pool.cpp: if (a << <= =>  < >>b) {
      equal: both branches do the same for equal values

`equal`: no program can tell the mutant from the solution. `tools`: --races or --bounds finds it, without which a kernel
does not count. `later`: the tests of a later step find it. `missed`: a fault that no test finds."""
import collections
import dataclasses
import pathlib
import re

from exercises.lesson import ROOT, Mistake

LEVELS = ("easy", "middle", "hard")
OF_STEPS = ("tests", "races", "bounds", "divergence", "launch rule")
OF_KERNELS = ("races", "bounds", "divergence", "results")
LINE = re.compile(r"([-+]|says:|found by:|also found by:|in:|easy:|middle:|hard:) ?(.*)")


@dataclasses.dataclass
class Bug:
    owner: str  # the lesson's number, or the program's name
    file: str  # as the list has it
    source: pathlib.Path
    what: str
    old: str
    new: str
    says: str = ""
    found_by: str = "tests"
    cases: str = "*"
    programs: tuple = ()
    through: pathlib.Path = None  # what is compiled, if it is in a header
    level: str = ""
    symptom: str = ""
    number: int = 0  # of those of an exercise, whose step and function follow
    step: object = None
    function: object = None
    shown_as: str = ""  # what the compiler calls its file; empty: by the file's name

    def places(self, source):
        return [match.span() for match in re.finditer(r"\s+".join(map(re.escape, self.old.split())), source)]

    def in_place(self, source):
        """Where it begins in the file, and the file with it."""
        places = self.places(source)
        if len(places) != 1:
            raise Mistake(f"'{self.what}': its code is {len(places)} times in {self.file}, wanted once:\n{self.old}")
        (begin, end), = places
        return begin, source[:begin] + self.new + source[end:]

    def unseen(self, source):
        """The file with the bug, and no line of blanks where a statement is gone: how ./course repair gives it."""
        return re.sub(r"\n[ \t]+(?=\n)", "", self.in_place(source)[1])


def home_of(path):
    return path.parent.parent if path.parent.name == "test" else path.parent


def named(home, file):
    """A file of a list: of the lesson, at eye level or in cli/, or of the repository."""
    return next((path for path in (home / file, home / "cli" / file) if path.exists()), ROOT / file)


def bugs_of(path):
    """The bugs of a list; one that is found in a step and in the whole lesson is there twice."""
    home, found = home_of(path), []
    programs = (f"lesson{home.name[:2]}_test",)
    for paragraph in paragraphs(path):
        title, *lines = paragraph.split("\n")
        if title.startswith("tests: "):
            programs = tuple(title.split()[1:])
        elif title != "survivors:":
            found += bugs_in(home, programs, title, lines)
    return found


def paragraphs(path):
    return path.read_text(encoding="utf-8").strip().split("\n\n") if path.exists() else []


def bugs_in(home, programs, title, lines):
    file, _, what = title.partition(": ")
    parts = collections.defaultdict(list)
    for line in lines:
        match = LINE.fullmatch(line)
        if not match:
            raise Mistake(f"'{title}': found '{line}', wanted '- CODE', '+ CODE', 'says: ...' or another line of tools/bugs.py")
        parts[match[1]].append(match[2])
    told = {key: "".join(texts) for key, texts in parts.items() if key not in "-+"}
    level = next((level for level in LEVELS if f"{level}:" in told), "")
    owner = home.name[:2] if home.name[0].isdigit() else home.name
    bug = Bug(owner, file, named(home, file), what, "\n".join(parts["-"]), "\n".join(parts["+"]), told.get("says:", ""), level=level,
              symptom=told.get(f"{level}:", ""), through=named(home, told["in:"]) if "in:" in told else None)
    if not what or not bug.old:
        raise Mistake(f"found '{title}', wanted 'FILE: WHAT IS WRONG' and lines '- CODE'")
    if bug.says:
        bug.found_by = told.get("found by:", "tests")
        if bug.found_by not in OF_STEPS:
            raise Mistake(f"'{title}': found by '{bug.found_by}', wanted one of {', '.join(OF_STEPS)}")
        yield bug
    if level and (not bug.says or bug.found_by != "tests"):
        raise Mistake(f"'{title}': found '{level}:', wanted it where a step's test finds the bug")
    finder = told.get("also found by:" if bug.says else "found by:", "" if bug.says else "tests")
    if finder:
        tool, _, cases = finder.partition(", ")
        if tool not in ("tests", *OF_KERNELS):
            raise Mistake(f"'{title}': found by '{tool}', wanted one of {', '.join(OF_KERNELS)}")
        if tool != "tests":
            programs = (re.sub(r"(_gpu)?_test$", "_gpu_test", programs[0]),)
        yield dataclasses.replace(bug, says="", level="", found_by=tool, cases=cases.strip('"') or "*", programs=programs)


def survivors(path):
    """Of the mutants that may survive, by mutant: (kind, reason)."""
    kept = {}
    for paragraph in paragraphs(path):
        title, *lines = paragraph.split("\n")
        for mutant, reason in zip(lines[::2], lines[1::2], strict=True) if title == "survivors:" else ():
            match = re.fullmatch(r"  (equal|tools|later|missed): (.+)", reason)
            if not match:
                raise Mistake(f"{path.relative_to(ROOT)}: found '{reason}', wanted '  KIND: REASON', KIND one of equal, tools, later, missed")
            kept[mutant] = match.groups()
    return kept
