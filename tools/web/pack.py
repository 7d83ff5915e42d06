#!/usr/bin/env python3
"""Packs files for the browser: pack.py OUT [NAME=FILE | /course/FILE]...

Writes OUT.pack, a gzipped file: the length of an index, the index as JSON, the files one after the other;
and OUT.pack.js, the same as a script, for a page that was opened as a file. A folder brings along what is in
it, its name before theirs; a font only what is drawn of it. viz/web/packs.js reads them."""
import base64
import gzip
import json
import pathlib
import sys


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


def files_of(words):
    for word in words:
        name, source = word.split("=", 1) if "=" in word else (word, word.removeprefix("/course/"))
        source = pathlib.Path(source)
        inside = [f for f in sorted(source.rglob("*")) if f.is_file()] if source.is_dir() else [source]
        for file in inside:
            body = file.read_bytes()
            yield (name if file == source else f"{name}/{file.relative_to(source)}"), font_to_draw(body) if name.endswith(".ttf") else body


def main():
    out = pathlib.Path(sys.argv[1])
    index, at, bodies = [], 0, []
    for name, body in files_of(sys.argv[2:]):
        index.append({"file": name, "at": at, "size": len(body)})
        at += len(body)
        bodies.append(body)
    head = json.dumps(index).encode()
    packed = gzip.compress(len(head).to_bytes(4, "little") + head + b"".join(bodies), 9, mtime=0)
    out.with_suffix(".pack").write_bytes(packed)
    out.with_suffix(".pack.js").write_text(f'packed("{out.name}", "{base64.b64encode(packed).decode()}")\n')
    print(f"{out.name:<12} {at:>10,} bytes, packed {len(packed):>9,}, as a script {out.with_suffix('.pack.js').stat().st_size:>9,}")


if __name__ == "__main__":
    main()
