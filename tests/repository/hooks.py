"""The rule `hooks` of check.py: nothing is in a lesson for the sake of a later one.

It finds, in the headers at eye level, public and protected members that nothing else in the lesson's folder names
(its tests, page and program count, too), virtual functions that the lesson neither overrides nor calls, and
parameters without a name in functions that override nothing. Names are compared, not types: a name that something else
in the lesson has, too, or that a header of an earlier lesson names (as a template's), is taken for used.
"""
import re

# (lesson, member): why it may stand there all the same
ALLOWED = {
    ("07", "evict_blocks"): "vLLM's BlockPool has it; lesson 11 takes damaged blocks out of the index with it",
}

CODE = {".h", ".cpp", ".cu", ".cuh"}
NOT_MEMBERS = {"operator", "requires", "static_assert", "using", "friend", "typedef", "template", "concept"}


def plain(text):
    """The code without comments and strings, line by line as before. A parameter's /*name*/ becomes void_name."""
    text = re.sub(r"/\*\s*(\w+)\s*\*/(?=\s*[,)])", r"void_\1", text)
    text = re.sub(r"/\*.*?\*/|//[^\n]*", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def classes(text):
    """Name, is_struct, body and position of every class that is defined."""
    for head in re.finditer(r"\b(class|struct)\s+(\w+)(?:\s+final)?\s*(?::[^;{]*)?\{", text):
        depth, end = 1, head.end()
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        yield head.group(2), head.group(1) == "struct", text[head.end():end - 1], head.end()


def statements(body):
    """The declarations of a class and where they begin, without what is in braces."""
    kept, begin, parens, braces = "", 0, 0, 0
    for at, char in enumerate(body):
        braces += char == "{"
        kept += char if not braces else ""
        parens += (char == "(") - (char == ")")
        braces -= char == "}"
        if parens or braces:
            continue
        is_label = char == ":" and re.search(r"\b(public|protected|private)\s*:$", kept)
        ends_body = char == "}" and not re.match(r"\s*[;,{)]", body[at + 1:])
        if char == ";" or is_label or ends_body:
            yield kept.strip(), begin
            kept, begin = "", at + 1


def member_of(statement):
    """The name that a statement declares, or None."""
    if statement.split(" ")[0].rstrip("<(") in NOT_MEMBERS | {"class", "struct", "enum"} or "operator" in statement:
        return None
    function = re.search(r"(~?\b\w+)\s*\(", statement)
    if function:
        return None if function.group(1).startswith("~") else function.group(1)
    field = re.search(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?:=[^;]*)?;?$", statement)
    return field.group(1) if field and " " in statement else None


def hooks_in(lesson, number, earlier):
    files = {path: plain(path.read_text(encoding="utf-8")) for path in sorted(lesson.rglob("*"))
             if path.suffix in CODE}
    everything = "\n".join(files.values())
    known = set(re.findall(r"\w+", earlier))
    for path, text in files.items():
        if path.parent != lesson or path.suffix != ".h":
            continue
        for name, is_struct, body, at in classes(text):
            private = not is_struct
            for statement, offset in statements(body):
                if access := re.search(r"\b(public|protected|private)\s*:$", statement):
                    private = access.group(1) == "private"
                member = member_of(statement)
                code = offset + len(body[offset:]) - len(body[offset:].lstrip())
                line = text.count("\n", 0, at + code) + 1
                if not member or member == name or (number, member) in ALLOWED or re.search(r"\boverride\b", statement):
                    continue
                defined = len(re.findall(rf"\b{name}(?:<[^>]*>)?::{member}\b\s*\(", everything))
                named = len(re.findall(rf"\b{member}\b", everything)) - 1 - defined
                virtual = re.match(r"virtual\b", statement)
                if named <= 0 and member not in known and (virtual or not private):
                    yield path, line, f"{name}::{member} is named nowhere else in the lesson"
                elif virtual and not re.search(rf"(class|struct) \w+[^;{{]*:[^;{{]*\b{name}\b", everything):
                    yield path, line, f"{name}::{member} is virtual, and no class of the lesson derives from {name}"
                elif "void_" in statement:
                    yield path, line, f"{name}::{member} has a parameter that it does not use"


def hooks(root):
    earlier = ""
    for lesson in sorted(root.glob("lessons/[0-9][0-9]_*")):
        for path, line, what in hooks_in(lesson, lesson.name[:2], earlier):
            yield f"{path.relative_to(root)}:{line}: {what}"
        earlier += "\n".join(plain(path.read_text(encoding="utf-8")) for path in sorted(lesson.glob("*.h")))
