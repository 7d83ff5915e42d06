"""Diagram of lesson 06: two chains of hashes, computed by the same rule as the lesson's."""
import struct

from style import BLUE, GREEN, INK, LINE, MUTED, ORANGE, PAPER, Svg

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
                      0x27D4EB2F165667C5)


def rotl(x, r):
    return ((x << r) | (x >> (64 - r))) & MASK


def turn(lane, word):
    return rotl((lane + word * P2) & MASK, 31) * P1 & MASK


def xxh64(data):
    """XXH64 with seed 0."""
    at = 0
    if len(data) >= 32:
        lanes = [(P1 + P2) & MASK, P2, 0, (-P1) & MASK]
        while at + 32 <= len(data):
            lanes = [turn(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at))]
            at += 32
        h = sum(rotl(lane, r) for lane, r in zip(lanes, (1, 7, 12, 18))) & MASK
        for lane in lanes:
            h = ((h ^ turn(0, lane)) * P1 + P4) & MASK
    else:
        h = P5
    h = (h + len(data)) & MASK
    while at + 8 <= len(data):
        h = (rotl(h ^ turn(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= len(data):
        h = (rotl(h ^ (struct.unpack_from("<I", data, at)[0] * P1 & MASK), 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotl(h ^ (byte * P5 & MASK), 11) * P1 & MASK
    h = (h ^ (h >> 33)) * P2 & MASK
    h = (h ^ (h >> 29)) * P3 & MASK
    return h ^ (h >> 32)


def chain_of(tokens, size=16):
    hashes, parent = [], b""
    for begin in range(0, len(tokens), size):
        h = xxh64(parent + struct.pack(f"<{size}i", *tokens[begin:begin + size]))
        hashes.append(h)
        parent = struct.pack("<Q", h)
    return hashes


def chain():
    first = list(range(48))
    second = list(range(48))
    second[20] = 99
    rows = [("A", first, chain_of(first)), ("B", second, chain_of(second))]
    assert rows[0][2][0] == 0x8A44256AED976C78 and rows[0][2][1] == 0x215105CEE679379B  # the tests' digests
    svg = Svg(640, 366, "Two requests of 48 tokens; token 20 differs: block 0 is equal, blocks 1 and 2 are not.")
    svg.panel(8, 8, 624, 350, "A chain of hashes", "two requests of three blocks of 16 tokens; each block's name is its hash")
    for r, (name, tokens, hashes) in enumerate(rows):
        y = 84 + r * 134
        svg.text(22, y + 60, name, 17, INK, 700)
        for i, h in enumerate(hashes):
            x = 46 + i * 196
            same = h == rows[0][2][i] and r == 1
            svg.rect(x, y, 180, 114, "#e3f4ee" if same else PAPER, GREEN if same else LINE, 8)
            begin = 16 * i
            svg.text(x + 12, y + 24, f"tokens {begin} to {begin + 15}", 13.5, INK, 600)
            if r == 1 and i == 1:
                svg.text(x + 12, y + 46, "20 differs", 13, ORANGE, 600)
            if r == 1 and i == 2:
                svg.text(x + 12, y + 46, "equal to A's", 13, MUTED)
            svg.text(x + 12, y + 74, f"{h:016x}", 14, BLUE if not same else GREEN, 600)
            svg.text(x + 12, y + 100, "found: A's block" if same else
                     ("no such name: computed" if r == 1 else "computed and cached"), 12.5, MUTED)
            if i < 2:
                svg.line(x + 181, y + 69, x + 195, y + 69, MUTED, 1.6, tip=True)
    return svg.done()


FIGURES = {"lesson06_chain.svg": chain}
