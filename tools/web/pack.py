"""Packs what the pages in a browser need: programs in WebAssembly, scenarios, a font, the model.

A pack OUT.pack is a gzipped file: the length of an index, the index as JSON, the files one after the other; and
OUT.pack.js is the same as a script, for a page that was opened as a file. viz/web/packs.js reads them."""
import base64
import gzip
import json
import pathlib
import shutil

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIOS = ["lessons/*/scenarios", "simt/page/scenarios", "instruments/*/scenarios"]
MODEL = ["config.json", "tokenizer.json", "model.safetensors"]
FONT = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"

DRAWN = (b"cmap", b"glyf", b"head", b"hhea", b"hmtx", b"loca", b"maxp")


def font_to_draw(font):
    """A TrueType font without the tables that Dear ImGui does not read: kerning, ligatures, hints, names."""
    rows = [font[at:at + 16] for at in range(12, 12 + 16 * int.from_bytes(font[4:6], "big"), 16)]
    rows = [row for row in rows if row[:4] in DRAWN]
    head, body = font[:4] + len(rows).to_bytes(2, "big") + font[6:12], b""
    for row in rows:
        at, size = (int.from_bytes(row[i:i + 4], "big") for i in (8, 12))
        head += row[:8] + (12 + 16 * len(rows) + len(body)).to_bytes(4, "big") + row[12:]
        body += font[at:at + size] + bytes(-size % 4)
    return head + body


def files_of(entries):
    """Name and content of each file. A folder brings along what is in it; a font only what is drawn of it."""
    for name, source in entries.items():
        inside = [path for path in sorted(source.rglob("*")) if path.is_file()] if source.is_dir() else [source]
        for path in inside:
            body = path.read_bytes()
            full_name = name if path == source else f"{name}/{path.relative_to(source)}"
            yield full_name, font_to_draw(body) if name.endswith(".ttf") else body


def in_course(*paths):
    """Files of the repository, where the programs look for them in a browser."""
    return {f"/course/{path}": ROOT / path for path in paths}


def pack(out, entries):
    """Packs {name in the browser: file or folder}."""
    index, at, bodies = [], 0, []
    for name, body in files_of(entries):
        index.append({"file": name, "at": at, "size": len(body)})
        at += len(body)
        bodies.append(body)
    head = json.dumps(index).encode()
    packed = gzip.compress(len(head).to_bytes(4, "little") + head + b"".join(bodies), 9, mtime=0)
    script = f'packed("{out.name}", "{base64.b64encode(packed).decode()}")\n'
    out.with_suffix(".pack").write_bytes(packed)
    out.with_suffix(".pack.js").write_text(script)
    print(f"{out.name:<12} {at:>10,} bytes, packed {len(packed):>9,}, as a script {len(script):>9,}", flush=True)


def pages(programs, out):
    """Both pages in the folder `out`, from the programs of a build for WebAssembly."""
    out.mkdir(parents=True, exist_ok=True)
    for path in [*ROOT.glob("viz/web/*.html"), *ROOT.glob("viz/web/*.js")]:
        shutil.copy(path, out)
    program = lambda name: {f"{name}{end}": programs / f"{name}{end}" for end in (".js", ".wasm")}
    parts = {name: program(name) for name in ("visualizer", "ladder")}
    parts["visualizer"]["/course/DejaVuSans.ttf"] = pathlib.Path(FONT)
    scenarios = [path.relative_to(ROOT) for folder in SCENARIOS for path in sorted(ROOT.glob(folder))]
    parts["visualizer"] |= in_course("simt/page/traces", "instruments/watch/example.kvevents", *scenarios)
    parts["model"] = in_course(*(f"models/tiny/{name}" for name in MODEL))
    for name, entries in parts.items():
        pack(out / name, entries)
    # What the pages cannot know: the lessons, where the texts are, and the bytes of each pack.
    lessons = " ".join(path.name for path in sorted(ROOT.glob("lessons/[0-9][0-9]_*")))
    made_in = out.relative_to(ROOT) if ROOT in out.parents else ""
    sizes = {name: (out / f"{name}.pack").stat().st_size for name in parts}
    (out / "contents.js").write_text(f"const lessons = '{lessons}'.split(' ')\nlet inSite = false\n"
                                     f"const madeIn = '{made_in}'\nconst packs = {json.dumps(sizes)}\n")
