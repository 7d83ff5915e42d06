"""What the loads and stores of a kernel cost, from the trace of a simulated GPU (simt/trace.cpp).

For each kernel a table with a row for each line of code: requests (a warp's load or store is one), the
32-byte sectors of global memory that they touch or the passes through the 32 banks of shared memory,
the least that could do, and the share of the bytes moved that were wanted. `source` prints the files with
these numbers in the margin, and a picture shows one request of each line: which lane reads where.
"""
import collections
import json
import pathlib
import re
import subprocess

from course_arguments import die
from course_builds import shown

COUNTS = ("requests", "wanted", "moved", "best")
UNIT = {"global": "sectors", "shared": "passes"}
Key = collections.namedtuple("Key", "file line space op bytes")


def frames_at(program, addresses):
    """address -> [(function, file, line)], from the innermost of what was inlined there on."""
    out = subprocess.run(["addr2line", "-afiC", "-e", program, *map(hex, sorted(addresses))],
                         capture_output=True, text=True, check=True).stdout.splitlines()
    found, i = {}, 0
    while i < len(out):
        if re.fullmatch(r"0x[0-9a-f]+", out[i]):
            frames = found[int(out[i], 16)] = []
            i += 1
            continue
        file, _, number = out[i + 1].split(" ")[0].rpartition(":")
        frames.append((out[i], resolved(file, program), int(number) if number.isdigit() else 0))
        i += 2
    return found


def resolved(file, program):
    """The compiler may have seen it from the build folder."""
    path = pathlib.Path(file)
    return (path if path.is_absolute() else pathlib.Path(program).parent.parent / path).resolve()


def is_kernel_code(path):
    return path.suffix in (".cu", ".cuh")


def base_name(function):
    """lesson02::(anonymous namespace)::append_kv_kernel(Args) without all that is around the name."""
    name = function.replace("(anonymous namespace)::", "").removeprefix("void ")
    return re.split(r"[<(]", name)[0].split("::")[-1]


class Kernel:
    def __init__(self, name, file):
        self.name, self.file, self.launches, self.rows = name, file, 0, {}

    def add(self, key, row):
        total = self.rows.setdefault(key, dict.fromkeys(COUNTS, 0) | {"example": row})
        for name in COUNTS:
            total[name] += row[name]

    def of(self, space):
        return sorted((k, t) for k, t in self.rows.items() if k.space == space)


def read(path, folders=()):
    """The kernels of a trace that load or store, in the order of their names; instances of a template are one.
    `folders`: only those that are defined there."""
    rows = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    programs = collections.defaultdict(set)
    for row in rows:
        programs[row["program"]] |= {row["kernel"], row.get("at", row["kernel"])}
    frames = {program: frames_at(program, addresses) for program, addresses in programs.items()}
    kernels = {}
    for row in rows:
        function, file, _ = frames[row["program"]][row["kernel"]][-1]
        kernel = kernels.setdefault((base_name(function), file), Kernel(base_name(function), file))
        if "launches" in row:
            kernel.launches += row["launches"]
            continue
        # The kernel's own line, even if the access is in a function that it calls there.
        _, at_file, line = next((f for f in reversed(frames[row["program"]][row["at"]]) if is_kernel_code(f[1])),
                                frames[row["program"]][row["at"]][-1])
        kernel.add(Key(at_file, line, row["space"], row["op"], row["bytes"]), row)
    folders = [pathlib.Path(folder).resolve() for folder in folders]
    wanted = lambda file: not folders or any(file.is_relative_to(folder) for folder in folders)
    return [kernels[key] for key in sorted(kernels, key=str) if kernels[key].rows and wanted(key[1])]


def source_line(file, number):
    try:
        return pathlib.Path(file).read_text().splitlines()[number - 1].strip()
    except (OSError, IndexError):
        return ""


def table(kernel):
    times = f"{kernel.launches} launch{'es' if kernel.launches != 1 else ''}"
    print(f"{kernel.name}, {kernel.file.name}, {times}")
    for space, unit in UNIT.items():
        rows = kernel.of(space)
        if not rows:
            continue
        print(f"\n{'line':>16}  {space:<8}  requests {unit:>9}   each  least  wanted")
        for key, t in rows:
            place = str(key.line) if key.file == kernel.file else f"{key.file.name}:{key.line}"
            share = 100 * (t["wanted"] / (32 * t["moved"]) if space == "global" else t["best"] / t["moved"])
            print(f"{place:>16}  {key.op + ' ' + str(key.bytes):<8} {t['requests']:>9,} {t['moved']:>9,} "
                  f"{t['moved'] / t['requests']:>6.2f} {t['best'] / t['requests']:>6.2f} {share:>5.0f} %  "
                  f"{source_line(key.file, key.line)[:38]}".rstrip())
        moved, best = (sum(t[name] for _, t in rows) for name in ("moved", "best"))
        print(f"{'all':>16}  {'':<8} {sum(t['requests'] for _, t in rows):>9,} {moved:>9,}   at least {best:,}")
    print()


def annotate(kernels, folders):
    margin = collections.defaultdict(lambda: collections.defaultdict(list))
    for kernel in kernels:
        for (file, number, space, op, _), t in sorted(kernel.rows.items()):
            if any(file.is_relative_to(folder) for folder in folders):
                margin[file][number].append(f"{op} {t['moved'] / t['requests']:.1f}/{t['best'] / t['requests']:.1f}{space[0]}")
    for file, numbers in margin.items():
        print(f"\n{file.name}: sectors (g) or passes (s) of a request / the least\n")
        lines = file.read_text().splitlines()
        printed = 0
        for number in sorted(numbers):  # the functions that they stand in, whole
            if number <= printed:
                continue
            begin = next((i for i in range(number - 1, -1, -1) if lines[i] == ""), 0) + 1
            while lines[begin - 1].startswith("  "):  # an empty line within the function
                begin = next((i for i in range(begin - 2, -1, -1) if lines[i] == ""), 0) + 1
            printed = next((i + 1 for i in range(number, len(lines)) if lines[i] == "}"), len(lines))
            for n in range(begin, printed + 1):
                print(f"{' '.join(numbers[n])[:34]:>34} | {lines[n - 1]}".rstrip())


def draw(kernels, path):
    """One request of each line: a row of lanes, and the sectors or banks that they touch, in the order of addresses."""
    rows, y = [], 0
    for kernel in kernels:
        for key, t in sorted(kernel.rows.items()):
            lanes = {int(lane): at for lane, at in t["example"]["shown"][0]["lanes"].items()}
            place = lambda b: b // 32 if key.space == "global" else b // 4 % 32
            units = sorted({place(at + b) for at in lanes.values() for b in range(0, key.bytes, 4 if key.bytes >= 4 else 1)})
            width = 768 / len(units)
            unit = ("sector" if key.space == "global" else "bank") + ("s" if len(units) > 1 else "")
            rows.append(f'<text x="8" y="{y + 18}" class="t">{kernel.name}, line {key.line}: {key.op} of {key.bytes} bytes, '
                        f'{len(lanes)} lanes, {len(units)} {unit}</text>')
            for lane in range(32):
                x = 8 + lane * 24
                rows.append(f'<rect x="{x}" y="{y + 26}" width="22" height="16" class="{"on" if lane in lanes else "off"}"/>'
                            f'<text x="{x + 11}" y="{y + 38}" class="n">{lane}</text>')
                if lane in lanes:
                    to = 8 + (units.index(place(lanes[lane])) + 0.5) * width
                    rows.append(f'<line x1="{x + 11}" y1="{y + 42}" x2="{to:.0f}" y2="{y + 78}" class="l"/>')
            for i in range(len(units)):
                rows.append(f'<rect x="{8 + i * width:.1f}" y="{y + 78}" width="{max(width - 2, 1):.1f}" height="14" class="s"/>')
            y += 112
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 784 {y}" font-family="sans-serif" font-size="13">'
        "<style>.t{fill:#444}.n{fill:#fff;font-size:9px;text-anchor:middle}.on{fill:#4878d0}.off{fill:#ddd}.s{fill:#ee854a}"
        ".l{stroke:#888;stroke-width:.8}@media (prefers-color-scheme:dark){.t{fill:#ddd}.off{fill:#444}}</style>"
        + "".join(rows) + "</svg>\n")


def sums(kernels):
    return [{"kernel": kernel.name, "space": space, "op": op, **{name: sum(t[name] for _, t in rows) for name in COUNTS}}
            for kernel in kernels for space in UNIT for op in ("load", "store")
            if (rows := [(k, t) for k, t in kernel.of(space) if k.op == op])]


def report(trace, folders, svg, source):
    kernels = read(trace, folders)
    if not kernels:
        die("no load or store was traced; wanted a kernel that ran in a simt-trace build")
    for kernel in kernels:
        table(kernel)
    print("A request is one load or store of a warp. It moves sectors of 32 bytes of global memory, or takes\n"
          "passes through the 32 banks of shared memory; 'least' is what so many bytes need.")
    if source:
        annotate(kernels, folders)
    draw(kernels, svg)
    print(f"Which lane reads where: {shown(svg.resolve())}")


def compare(mine, own):
    """Requests and sectors of a learner's kernels beside those of the lesson's own; a mark where they are many more."""
    counts = lambda kernels: {k.name: [sum(t[name] for _, t in k.of("global")) for name in ("requests", "moved")] for k in kernels}
    theirs = counts(read(own))
    print("\nYour kernels beside the lesson's own, in global memory:")
    for name, found in counts(k for k in read(mine) if k.file.parent.name == "exercise").items():
        if name not in theirs:  # a helper of the learner's
            continue
        more = max(a / max(b, 1) for a, b in zip(found, theirs[name]))
        print(f"  {name}: {found[0]:,} requests, the lesson's {theirs[name][0]:,}; {found[1]:,} sectors, the lesson's {theirs[name][1]:,}"
              + (f"   (!) {more:.1f} times as many: a thread that works alone, or neighbours that are far apart?" if more > 1.2 else ""))
