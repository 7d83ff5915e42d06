"""check.py selftest: plants violations of every rule, and wants each to be found, and nothing else."""
import contextlib
import io
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import measured  # noqa: E402


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


EXERCISE = '## 1. F\n\n`f.cpp`: `int f()`\n\nText.\n\nHint: x.\n\nTests: "f"\n'

PREDICTIONS = """## Predict

**1.** How much?

<details><summary>Answer</summary>

A lot.

</details>

**2.** When?

<details><summary>Answer</summary>

Later.

</details>

## Run it
"""

SCENE = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 640 400'><text font-size='12'>a</text></svg>\n"
FROM = "<!-- from docs/figures/data/ok.json -->\n"
DATA = """{"device": "a machine", "commit": "HEAD", "date": "2026-11-23", "command": "./course bench 1 --device cpu",
"measures": ["lessons/01_a"], "printed": ["row  3.25", "", "row  4.25", "| row | 4.25 |"], "values": {"by hand": [5.28, 61]}}"""


def selftest(rules):
    """Plants one violation at a time in an otherwise clean tree."""
    planted = [
        ("arrows", "common/x.h", '#include "kernels/y.h"\n'),
        ("arrows", "kernels/x.cu", '#include "qwen3/y.h"\n'),
        ("arrows", "kernels/fast/x.cu", '#include "lessons/01_a/y.cuh"\n'),
        ("arrows", "qwen3/x.cpp", '#include "programs/y.h"\n'),
        ("arrows", "programs/x.cpp", '#include "viz/y.h"\n'),
        ("arrows", "viz/x.cpp", '#include "tests/y.h"\n'),
        ("arrows", "viz/x.cpp", "// as lesson01 does\n"),
        ("arrows", "lessons/02_b/x.cpp", '#include "lessons/03_c/y.h"\n'),
        ("arrows", "lessons/02_b/test/x.cpp", '#include "lessons/03_c/y.h"\n'),
        ("arrows", "lessons/02_b/x.cu", '#include "lessons/01_a/y.cuh"\n'),
        ("arrows", "lessons/02_b/bench/main.cpp", '#include "tests/support/y.h"\n'),
        ("arrows", "lessons/02_b/main.cpp", '#include "tools/y.h"\n'),
        ("arrows", "lessons/02_b/engine.cpp", '#include "viz/pool.h"\n'),
        ("arrows", "lessons/02_b/x.cpp", "#include <cuda_runtime.h>\n"),
        ("arrows", "tools/CMakeLists.txt", "target_link_libraries(x PRIVATE kv_lesson01)\n"),
        ("arrows", "kernels/CMakeLists.txt", "target_link_libraries(x PUBLIC kv::qwen3)\n"),
        ("arrows", "lessons/02_b/CMakeLists.txt", "kv_lesson(02 b LIBS kv_lesson03)\n"),
        ("arrows", "lessons/02_b/CMakeLists.txt", "target_sources(b PRIVATE tests/support/x.cpp)\n"),
        ("house", "lessons/02_b/b_test.cpp", "\n"),
        ("house", "lessons/02_b/program/x.cpp", "\n"),
        ("house", "lessons/03_c/p.h", "\n"),
        ("house", "lessons/05_e/e.h", "\n"),
        ("budget", "tests/repository/budget.txt", "1  common\n"),
        ("house", "lessons/02_b/x.cuh", '  asm volatile("");\n'),
        ("house", "common/x.cpp", "const_cast<int&>(x) = 1;\n"),
        ("house", "lessons/02_b/x.cu", "__global__ void f() {\n" + 69 * "  g();\n" + "}\n"),
        ("quotes", "lessons/01_a/README.md", "<!-- quote: lessons/01_a/ok.h -->\n```cpp\nint b;\n```\n"),
        ("quotes", "lessons/01_a/README.md", "<!-- quote: lessons/01_a/gone.h -->\n```cpp\nint a;\n```\n"),
        ("quotes", "lessons/01_a/README.md", "<!-- quote: lessons/01_a/ok.h -->\ntext\n"),
        ("quotes", "lessons/01_a/README.md", "<!-- quote: lessons/01_a/ok.h -->\n\n```cpp\nint a;\n```\n"),
        ("quotes", "lessons/01_a/README.md", "<!-- quote: lessons/01_a/ok.h -->\n```cpp\nint a;\n"),
        ("quotes", "docs/x.md", "Lesson 1's kernels on the simulated GPU\n\nf_kernel, x.cu, 4 launches\n  7  load 4  1  1  1.00  12 %  int a\n"),
        ("numbers", "docs/speed.md", "It is 3.2 times as fast.\n"),
        ("numbers", "docs/speed.md", "A step takes 7 µs.\n"),
        ("numbers", "docs/speed.md", "It is half as long again.\n"),
        ("numbers", "docs/speed.md", "A step takes 7\nµs.\n"),
        ("numbers", "docs/speed.md", "<!-- number: 7 TB/s by a data sheet -->\n7 TB/s, or 8 TB/s.\n"),
        ("numbers", "docs/speed.md", "<!-- number: 7 TB/s by a data sheet -->\n7 TB/s.\n\nAnd 7 TB/s again.\n"),
        ("numbers", "docs/speed.md", "<!-- number: 7 us by Nsight Compute -->\n7 us.\n"),
        ("numbers", "docs/speed.md", "<!-- number: the sum that is shown -->\nWords.\n"),
        ("numbers", "docs/speed.md", "<!-- output: ./course run 1 --device cuda -->\n```\n7 us\n```\n"),
        ("numbers", "docs/speed.md", FROM + "```\nrow  3.26\n```\n"),
        ("numbers", "docs/speed.md", FROM + "| row | 4.26 |\n"),
        ("numbers", "docs/speed.md", "```\n" + FROM + "row  3.25\n```\n"),
        ("numbers", "docs/speed.md", FROM + "A row took 5.26 then.\n"),
        ("numbers", "docs/speed.md", "<!-- output: ./course run 1 -->\n```\n7 us\n```\n\n" + FROM + "A row took 7 us.\n"),
        ("numbers", "docs/speed.md", "It takes 7 minutes.\n"),
        ("numbers", "docs/speed.md", FROM.replace("ok", "gone") + "A row.\n"),
        ("numbers", "docs/figures/data/new.json", "{}"),
        ("numbers", "docs/figures/data/new.json", DATA.replace("lessons", "gone")),
        ("commands", "README.md", "`./course fly`\n"),
        ("commands", "README.md", "`./course run 7`\n"),
        ("commands", "README.md", "[x](docs/none.md)\n"),
        ("commands", "README.md", "`common/none.h`\n"),
        ("solutions", "lessons/01_a/README.md", "```cpp\n  return answer(42);\n```\n"),
        ("solutions", "lessons/01_a/exercise/README.md", EXERCISE + "```\nreturn answer(42);\n```\n"),
        ("answers", "lessons/03_c/README.md", PREDICTIONS.replace("Later.\n\n", "")),
        ("answers", "lessons/03_c/README.md", PREDICTIONS.replace("**2.** ", "")),
        ("answers", "lessons/03_c/README.md", PREDICTIONS.replace("**2.** ", "**3.** ")),
        ("answers", "lessons/03_c/README.md", PREDICTIONS.replace("Answer", "Solution")),
        ("answers", "lessons/03_c/README.md", "## Predict\n\nNothing.\n"),
        ("figures", "tools/figures/all.py", "import sys\nfor folder in 'docs/figures', sys.argv[2]:\n"
         "    open(folder + '/x.svg', 'w').close()\nprint('docs/figures/x.svg:1: out of the picture: x')\n"),
        ("figures", "docs/figures/nowhere.svg", SCENE),
        ("figures", "docs/figures/ok.svg", SCENE.replace("640", "660")),
        ("figures", "docs/figures/viz_ok.svg", SCENE.replace("400", "731")),
        ("hooks", "lessons/02_b/x.h", "class X {\n public:\n  virtual void later();\n};\n"),
        ("hooks", "lessons/02_b/x.h", "struct X {\n  int of_a_later_lesson = 0;  // of_a_later_lesson\n};\n"),
        ("hooks", "lessons/02_b/x.h", "class X {\n public:\n  virtual void f() { f(); }\n};\n"),
        ("hooks", "lessons/02_b/x.h", "struct X {\n  int called(int /*later*/) { return called(1); }\n};\n"),
        ("browser", "viz/x.cpp", "std::ranges::rotate(x, y);\n"),
        ("promise", "CMakeLists.txt", "add_compile_options(-ffast-math)\n"),
    ]
    clean = {
        "lessons/01_a/f.cpp": "int f() {\n  // why\n  return answer(42);\n}\n",
        "lessons/01_a/exercise/README.md": EXERCISE,
        "lessons/01_a/README.md": "<details>\n```cpp\n  return answer(42);\n```\n</details>\nreturn answer(42);\n",
        **{f"lessons/03_c/{letter}.h": "\n" for letter in "abcdefghijklmn"},
        **{f"lessons/{name}.cu": "\n" for name in ("01_a/f", "03_c/o", "04_d/d")},
        "tools/course.py": '    Command("run",\n    Command("test",\n',
        "lessons/01_a/ok.h": "int a;\n",
        "tests/ok.cpp": "//\n",
        "lessons/02_b/ok.h": '#include "lessons/01_a/ok.h"\n#include "kernels/x.h"\n#include "programs/x.h"\n',
        "lessons/02_b/page/page.cpp": '#include "viz/x.h"\n#include <cmath>\n',
        "lessons/02_b/test/ok_test.cpp": '#include "tests/x.h"\n#include "lessons/02_b/ok.h"\nconst_cast<int&>(x) = 1;\n',
        "lessons/02_b/road/ok.cu": 'asm("");\n',
        "lessons/02_b/ok.cu": "#include <cuda_fp16.h>\n__global__ void f() {\n" + 68 * "  g();\n" + "}\n// no asm\n",
        "lessons/02_b/a.h": "class A : B {\n public:\n  void f(int /*x*/) override;\n  int g() { return h_; }\n"
                            " private:\n  virtual void v() = 0;\n  int h_{0}, hidden_;\n};\nclass C : A {};\n",
        "lessons/02_b/a.cpp": "void use() { A().g(); v(); }\n",
        "lessons/04_d/README.md": PREDICTIONS,
        "docs/figures/data/ok.json": DATA,
        "docs/figures/ok.svg": SCENE,
        "docs/ok.md": "<!-- output: ./course run 1 -->\n```\n1,024 in 3.25 ms\n```\n1,024 us, 3.2 ms; `9 ms`\n"
                      "<!-- number: 7 TB/s by a data sheet -->\n7 TB/s\n\n" + FROM + "```\nrow  3.25\n\nrow  4.25\n```\n\n"
                      + FROM + "| row | 4.25 |\n\n" + FROM + "They took 3.25 and 5.3, and 61 µs.\n",
        "cmake/web/missing_std.h": "KV_IF(find_if)\n",
        "viz/ok.cpp": "std::ranges::find_if(x, y);\n",
        "kernels/ok.cpp": '#include "common/x.h"\n',
        "site/node_modules/x/README.md": "[not ours](none.md)\n",
        "kernels/CMakeLists.txt": "target_link_libraries(x PUBLIC kv::common)  # not kv::qwen3\n",
        "README.md": "`./course run 1` [ok](lessons/01_a/ok.h) ![a](docs/figures/ok.svg)\n",
        "lessons/02_b/README.md": "<!-- quote: lessons/01_a/ok.h -->\n```cpp\nint a;\n```\n",
    }
    for rule, name, text in planted + [(rule, None, None) for rule in rules]:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, content in clean.items():
                write(root, path, content)
            if name:
                write(root, name, text)
            found = list(rules[rule](root))
            if bool(found) != bool(name):
                yield f"check.py:1: rule {rule} {'missed' if name else 'invented'}: {text or found}"
    yield from measured_selftest()


def measured_selftest():
    """A recorded output is in its file and in the text; it is stale when its code has changed, and only then."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        measured.ROOT, measured.DATA = root, root / "docs/figures/data"
        write(root, "docs/figures/data/ok.json", DATA)
        write(root, "docs/figures/data/old.json", DATA.replace('"lessons/01_a"', "").replace("HEAD", "0000000"))
        write(root, "docs/ok.md", FROM + "```\nrow  4.25\n| row | 4.25 |\n```\n")
        write(root, "lessons/01_a/a.h", "int a;\n" + 9 * "int f();\n")
        write(root, "fresh.json", '{"device": "another machine"}')

        def commit():
            measured.git("add", "-A")
            measured.git("-c", "user.name=x", "-c", "user.email=x", "commit", "-qm", "x")

        def is_stale():
            measured.changed_since.cache_clear()
            with contextlib.redirect_stdout(io.StringIO()):
                return measured.stale() == 1

        measured.git("init", "-q")
        commit()
        with contextlib.redirect_stderr(io.StringIO()):
            sys.stdin = io.StringIO("row  3.5\n\nrow  4.5\n| row | 4.5 |\n")
            measured.record("./course bench 1", str(root / "fresh.json"))
            sys.stdin = sys.__stdin__
        data = measured.load(root / "docs/figures/data/ok.json")
        if data["device"] != "another machine" or (root / "docs/ok.md").read_text() != FROM + "```\nrow  4.5\n| row | 4.5 |\n```\n":
            yield "measured.py:1: record did not put new lines in the place of the old ones"
        commit()
        if is_stale():
            yield "measured.py:1: stale names what was measured of this very code"
        write(root, "lessons/01_a/README.md", "A text.\n")
        write(root, "lessons/01_a/b.h", "// A comment.\n#include <x>\nint a;  // Another one.\n" + 9 * "int f();\n")
        (root / "lessons/01_a/a.h").unlink()
        commit()
        if is_stale():
            yield "measured.py:1: stale takes a text, a comment or a move for code that has changed"
        write(root, "lessons/01_a/b.h", "int b;\n" + 9 * "int f();\n")
        commit()
        if not is_stale():
            yield "measured.py:1: stale misses that the code has changed"
