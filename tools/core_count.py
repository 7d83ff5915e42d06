#!/usr/bin/env python3
"""What each lesson consists of: `core_count.py` prints a table. docs/architecture.md has the aims.

  eye        files in the lesson's folder itself, which a learner sees first
  core       lines that the lesson's own classes need: the code at eye level but main.cpp, and what it includes from
             the lesson's other folders (an included header counts with its .cpp and .cu)
  page       lines of page/
  tests      lines of test/
  virtual    virtual functions declared in the core; a destructor is none, nor is an override
  downcasts  casts to a class that derives from another one, outside test/
"""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
CODE = {".h", ".cpp", ".cu", ".cuh"}


def text_of(path):
    return path.read_text(encoding="utf-8")


def lines_of(paths):
    return sum(text_of(path).count("\n") for path in paths)


def code_in(folder):
    return [path for path in sorted(folder.rglob("*")) if path.suffix in CODE]


def includes(path, lesson):
    """The lesson's own files that a file includes."""
    for name in re.findall(r'^#include "([^"]+)"', text_of(path), re.M):
        for found in (ROOT / name, lesson / name, path.parent / name):
            if found.is_file() and lesson in found.parents:
                yield found
                break


def core_of(lesson):
    """Eye level, and what it needs from below."""
    core, todo = set(), [path for path in lesson.iterdir() if path.suffix in CODE and path.name != "main.cpp"]
    while todo:
        path = todo.pop()
        if path in core:
            continue
        core.add(path)
        for header in includes(path, lesson):
            todo += [header, *(twin for end in (".cpp", ".cu") if (twin := header.with_suffix(end)).is_file())]
    return sorted(core)


def downcasts(paths, derived):
    casts = re.compile(r"(?:static|dynamic)_cast<(?:const )?(?:\w+::)*(\w+)(?: const)?[&*]>")
    return sum(name in derived for path in paths for name in casts.findall(text_of(path)))


def main():
    lessons = sorted(path for path in (ROOT / "lessons").iterdir() if path.is_dir())
    derived = {name for lesson in lessons for path in code_in(lesson)
               for name in re.findall(r"^(?:class|struct) (\w+)(?: final)? : ", text_of(path), re.M)}
    print("lesson               eye   core   page  tests  virtual  downcasts")
    for lesson in lessons:
        core = core_of(lesson)
        eye = sum(path.is_file() for path in lesson.iterdir())
        virtual = sum(len(re.findall(r"\bvirtual (?!~)", re.sub(r"//.*", "", text_of(path)))) for path in core)
        others = [path for path in code_in(lesson) if "test" not in path.relative_to(lesson).parts]
        print(f"{lesson.name:<19} {eye:>4} {lines_of(core):>6,} {lines_of(code_in(lesson / 'page')):>6,} "
              f"{lines_of(code_in(lesson / 'test')):>6,} {virtual:>8} {downcasts(others, derived):>10}")


if __name__ == "__main__":
    main()
