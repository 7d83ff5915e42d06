"""check.py numbers: every quantity in a text was printed by a command, is kept in docs/figures/data, or is named as given."""
import json
import re

TEXTS = ("*.md", "lessons/**/*.md", "docs/*.md", "kernels/*/README.md", "instruments/README.md", "models/*/README.md")
KEYS = {"device", "commit", "date", "command", "measures", "printed"}
NUMBER = r"\d[\d,]*(?:\.\d+)?"
UNIT = r"us|µs|ms|ns|s|microseconds|milliseconds|seconds|minutes|hours|cycles|%|x(?! ?\d)|times|[GT]B/s|[GT]FLOP/s|tokens/s"
QUANTITY = re.compile(rf"(?<![\w.,/-])({NUMBER})(?:(?:\s|&nbsp;)?(?:{UNIT})(?![\w/]))")
DECIMAL = re.compile(r"(?<![\w.,/-])(\d[\d,]*\.\d+)(?![\w.])")  # of a paragraph about one unit
WORDS = re.compile(r"\b(?:(?:more|less)\s+than\s+(?:half|twice)|half\s+as\s+\w+\s+again|a\s+(?:third|quarter|fifth|tenth)\s+"
                   r"(?:longer|shorter|faster|slower|more|less))\b")
MEASURED = re.compile(r"H100|H200|\bGPU|Nsight|bench|perf |measured on|profiler")


def numbers_in(text):
    text = re.sub(r"\b[0-9a-f]{16}\b", "", text)  # digests are no quantities
    return {float(number.replace(",", "")) for number in re.findall(NUMBER, text)}


def blocks(text):
    """(line, marks, kind, lines) of each code block, table and paragraph; the marks are the comments right above it.
    The kind is None for marks above nothing."""
    marks, body, kind = [], [], None
    for n, line in enumerate([*text.splitlines(), ""], 1):
        fence = line.lstrip().startswith("```")
        if kind == "code":
            body.append(line)
            if not fence:
                continue
            yield n - len(body) + 1, marks, kind, body[1:-1]
            marks, body, kind = [], [], None
            continue
        new = "code" if fence else "table" if line.startswith("|") else "prose" if line.strip() else None
        if kind and (new != kind or line.startswith("<!--")):
            yield n - len(body), marks, kind, body
            marks, body = [], []
        if line.startswith("<!-- ") and line.endswith(" -->"):
            marks, kind = [*marks, line[5:-4]], None
        elif new is None:
            if marks:
                yield n, marks, None, []
            marks, kind = [], None
        else:
            body.append(line)
            kind = new
    if kind == "code":  # it does not end
        yield n - len(body) + 1, marks, None, []


def data_of(root, marks):
    """The files that the marks of a block name."""
    return [root / path for mark in marks if mark.startswith("from ") for path in mark.split()[1:]]


def known_by(data):
    return numbers_in("\n".join(data["printed"]) + json.dumps(data.get("values", {}), ensure_ascii=False))


def stand_in(lines, text):
    """Whether these lines are in a longer list of lines, in one piece."""
    return any(text[i : i + len(lines)] == lines for i in range(len(text) - len(lines) + 1))


def numbers(root):
    """A code block or table from docs/figures/data is there, line by line. A quantity in prose is in
    the files that the paragraph names, or, if it names none, in what a command of the text printed. Or it is in
    the paragraph's <!-- number: ... -->, which says where it comes from."""
    files = {}
    for path in sorted((root / "docs/figures/data").glob("*.json")):
        data = files[path] = json.loads(path.read_text(encoding="utf-8"))
        for missing in sorted(KEYS - set(data)):
            yield f"{path.relative_to(root)}:1: no key `{missing}` (tools/measured.py --help)"
        for gone in [code for code in data.get("measures", []) if not any(root.glob(code + "*"))]:
            yield f"{path.relative_to(root)}:1: it measures {gone}, which does not exist"
    for path in sorted({path for pattern in TEXTS for path in root.glob(pattern)}):
        rel, found = path.relative_to(root), list(blocks(path.read_text(encoding="utf-8")))
        known = set()
        for n, marks, kind, lines in found:
            for mark in marks:
                if mark.startswith("number:") and MEASURED.search(mark):
                    yield f"{rel}:{n}: a measured number has a file of docs/figures/data, and <!-- from FILE --> names it"
                if mark.startswith("number:") and not numbers_in(mark):
                    yield f"{rel}:{n}: a mark that names no number"
                if mark.startswith("output:") and re.search(r"--device cuda|course bench", mark):
                    yield f"{rel}:{n}: what a benchmark prints has a file of docs/figures/data, and <!-- from FILE --> names it"
            for file in data_of(root, marks):
                if file not in files:
                    yield f"{rel}:{n}: {file.relative_to(root)} does not exist"
            sources = [files[file] for file in data_of(root, marks) if file in files]
            if kind == "code" and any(line.startswith("<!-- from ") for line in lines):
                yield f"{rel}:{n}: a mark inside a code block, wanted above it"
            if kind != "prose" and sources and not any(stand_in(lines, data["printed"]) for data in sources):
                yield f"{rel}:{n}: these lines do not stand in the file that they are from"
            if kind == "code" and (sources or any(mark.startswith("output:") for mark in marks)) or kind == "table" and sources:
                known |= numbers_in("\n".join(lines))
        for n, marks, kind, lines in found:
            sources = [files[file] for file in data_of(root, marks) if file in files]
            if kind == "code" or kind == "table" and sources:
                continue
            named = (numbers_in(mark) for mark in marks if mark.startswith("number:"))
            own = sources or any(mark.startswith("number:") for mark in marks)
            here = (set() if own else known).union(*map(known_by, sources), *named)
            # A number may end a line, and its unit begin the next one.
            text = re.sub(r"`[^`]*`|\([^)]*\.md[^)]*\)|PCIe [\d.]+", lambda gone: "\n" * gone[0].count("\n"), "\n".join(lines))
            for found_at in [*QUANTITY.finditer(text), *(DECIMAL.finditer(text) if sources else [])]:
                number, at = found_at[1], n + text.count("\n", 0, found_at.start())
                digits = len(number.partition(".")[2])
                if float(number.replace(",", "")) not in {round(value, digits) for value in here}:
                    yield f"{rel}:{at}: no command of this text prints {number}, and no file that it names has it"
            for words in WORDS.finditer(text):
                yield f"{rel}:{n + text.count(chr(10), 0, words.start())}: a number in words: {' '.join(words[0].split())}"
