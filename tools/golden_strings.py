"""10,000 strings that a byte-level BPE can get wrong, and the ids that Hugging Face gives them.

Tensors (offsets have one entry more than there are strings):
  text, text_offsets              U8, I32   the strings' bytes, one after another; not always UTF-8
  ids, id_offsets                 U16, I32  special-token text read as plain text
  special_index                   I32       strings with special-token text in them ...
  special_ids, special_offsets    U16, I32  ... and their ids when such text is parsed
  decode_ids, decode_offsets      U16, I32  random ids, most of them no valid UTF-8 when joined ...
  decoded, decoded_offsets        U8, I32   ... and what they decode to, special tokens shown
Invalid UTF-8 is handed to Hugging Face as bytes.decode("utf-8", "replace"). All code points were
assigned in Unicode 14 or before, so that libraries of different age agree.
"""
import random
import unicodedata

import torch

import make_stories

COUNT = 10000
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
NEAR_SPECIAL = ["<|", "|>", "<|im_", "<|im_start|", "<|im_start |>", "im_end|>", "<|IM_END|>",
                "<<|im_end|>>"]

# Inclusive ranges, all assigned long ago.
RANGES = {
    "ascii": [(0x20, 0x7E)], "latin": [(0xA1, 0xFF), (0x100, 0x17F), (0x1E00, 0x1EF9)],
    "greek": [(0x391, 0x3A1), (0x3A3, 0x3CE), (0x1F00, 0x1F15)], "cyrillic": [(0x400, 0x481)],
    "hebrew": [(0x5D0, 0x5EA), (0x5B0, 0x5BC), (0xFB1F, 0xFB36)],
    "arabic": [(0x621, 0x63A), (0x641, 0x655), (0x660, 0x669), (0xFE70, 0xFE74)],
    "devanagari": [(0x904, 0x94D), (0x958, 0x96F)], "thai": [(0xE01, 0xE3A), (0xE3F, 0xE5B)],
    "tamil": [(0xB85, 0xB8A), (0xBBE, 0xBC2), (0xBC6, 0xBC8), (0xBCA, 0xBCD)],
    "georgian": [(0x10D0, 0x10F0)], "kana": [(0x3041, 0x3096), (0x3099, 0x309A), (0x30A1, 0x30FE)],
    "han": [(0x4E00, 0x9FA5), (0x3400, 0x34FF), (0x20000, 0x20040), (0xF900, 0xFA0D)],
    "hangul": [(0xAC00, 0xD7A3)], "jamo": [(0x1100, 0x1112), (0x1161, 0x1175), (0x11A8, 0x11C2)],
    "combining": [(0x300, 0x34E), (0x350, 0x36F), (0x20D0, 0x20DC)],
    "digits": [(0x30, 0x39), (0x660, 0x669), (0xFF10, 0xFF19), (0x2160, 0x2183), (0xBC, 0xBE),
               (0x2070, 0x2070), (0x2074, 0x2079), (0x2460, 0x249B), (0x1D7CE, 0x1D7FF)],
    "symbols": [(0x2010, 0x2027), (0x2030, 0x205E), (0x2190, 0x23FF), (0x2500, 0x26FF),
                (0x20A0, 0x20B1)],
    "math": [(0x1D400, 0x1D454), (0x2200, 0x22FF)],
    "compose": [(0x1D15E, 0x1D164), (0x2126, 0x212B), (0x2ADC, 0x2ADC), (0xFB1D, 0xFB1D),
                (0x340, 0x345), (0x374, 0x375), (0x37E, 0x37E), (0x387, 0x387), (0x2000, 0x2001)],
    "emoji": [(0x1F300, 0x1F5FF), (0x1F600, 0x1F64F), (0x1F680, 0x1F6C5), (0x1F910, 0x1F93A)],
    "controls": [(0, 0x1F), (0x7F, 0x9F), (0x200B, 0x200F), (0x202A, 0x202E), (0xFEFF, 0xFEFF),
                 (0xAD, 0xAD)],
    "private": [(0xE000, 0xE010), (0xF0000, 0xF0004), (0xFFFD, 0xFFFD), (0xFFFE, 0xFFFF)],
}
SPACES = [" ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "\r", "\v", "\f", "\u00a0", "\u0085",
          "\u1680", "\u2003", "\u2009", "\u2028", "\u2029", "\u202f", "\u205f", "\u180e", "\u3000",
          " \n ", "\t\t"]
CONTRACTIONS = ["'s", "'S", "'t", "'T", "'re", "'RE", "'rE", "'ve", "'m", "'ll", "'LL", "'d", "'D",
                "'", "\u2019s", "'\u017f", "''s", "'x", "'st", "'\u2113"]
SNIPPETS = [
    "def f(x):\n    return x ** 2  # square\n",
    "for (int i = 0; i < n; ++i) {\n\tsum += a[i];\n}\n",
    "#include <vector>\r\nint main() { return 0; }\r\n", "SELECT * FROM t WHERE a >= 10.5e-3;",
    "<div class=\"x\">&nbsp;</div>", "{\"key\": [1, 2.50, null, true]}", "x_1 = y__2->z::w;",
    "https://example.org/a?b=c&d=%20#e", "git commit -m 'it''s'", "\\frac{1}{2} \\alpha_i",
    "C:\\dir\\file.txt", "0x1F + 0b101 == 1_000_000", "if x!=y && !(a||b)...",
    "@decorator\nclass A(B):\n\n\n    pass\n"]
SENTENCES = [
    "I'm sure they've said it's what we'd do, and you'll see: they're right.",
    "DON'T SHOUT! IT'S LATE.",
    "Caf\u00e9 na\u00efve r\u00e9sum\u00e9, cafe\u0301 nai\u0308ve re\u0301sume\u0301",
    "\u00a1Hola! \u00bfQu\u00e9 tal?", "Ti\u1ebfng Vi\u1ec7t r\u1ea5t \u0111\u1eb9p",
    "Stra\u00dfe, \u00dcbung, \u00c4pfel",
    "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440!",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002", "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c",
    "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "\u03a3\u03af\u03c3\u03c5\u03c6\u03bf\u03c2", "\u0130stanbul \u0131\u015f\u0131k"]
BAD_BYTES = [b"\x80", b"\xbf", b"\xc0\xaf", b"\xc3", b"\xe2\x82", b"\xe2", b"\xe0\x80\x80",
             b"\xed\xa0\x80", b"\xed\xb0\x80", b"\xf0\x9f\x98", b"\xf0\x9f", b"\xf0\x80\x80\x80",
             b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xf8\x88\x80\x80\x80", b"\xff", b"\xfe",
             b"\xc3\x28", b"\xe2\x28\xa1", b"\xf1\x80\x80\x41", b"\xef\xbf", b"\xc2\x00"]


def code_point(rng, kind):
    low, high = rng.choice(RANGES[kind])
    return chr(rng.randint(low, high))


def run(rng, kind, longest=8):
    return "".join(code_point(rng, kind) for _ in range(rng.randint(1, longest)))


def emoji(rng):
    """One emoji as people type it: alone, with skin, joined, a flag, a keycap."""
    skin = chr(rng.randint(0x1F3FB, 0x1F3FF))
    return rng.choice([
        code_point(rng, "emoji"), rng.choice("\U0001F44D\U0001F44B\U0001F9D1") + skin,
        "\u200d".join(rng.sample("\U0001F468\U0001F469\U0001F467\U0001F466", rng.randint(2, 4))),
        "\U0001F469" + skin + "\u200d\U0001F680", "\u2764\ufe0f\u200d\U0001F525",
        "\U0001F3F3\ufe0f\u200d\U0001F308",
        "".join(chr(rng.randint(0x1F1E6, 0x1F1FF)) for _ in range(2)),
        rng.choice("0129#*") + "\ufe0f\u20e3"])


def marked(rng):
    """A base character with marks in any order: what NFC has to sort and compose."""
    kind = rng.choice(["ascii", "latin", "greek", "cyrillic", "hebrew", "kana", "devanagari",
                       "compose"])
    return code_point(rng, kind) + "".join(
        code_point(rng, rng.choice(["combining", "combining",
                                    kind])) for _ in range(rng.randint(1, 4)))


def hangul(rng):
    """Syllables from their parts, whole or broken in the middle."""
    parts = [chr(rng.randint(0x1100, 0x1112)), chr(rng.randint(0x1161, 0x1175)),
             chr(rng.randint(0x11A7, 0x11C2))]
    return rng.choice(["".join(parts), "".join(parts[:2]), parts[0] + parts[2],
                       run(rng, "hangul", 2) + parts[2], run(rng, "jamo", 4)])


def piece(rng, story):
    kinds = sorted(RANGES)
    return rng.choice([
        lambda: story[(at := rng.randrange(len(story))):at + rng.randint(1, 30)],
        lambda: rng.choice(SENTENCES), lambda: rng.choice(SNIPPETS),
        lambda: rng.choice(CONTRACTIONS),
        lambda: "".join(rng.choice(SPACES) for _ in range(rng.randint(1, 4))), lambda: emoji(rng),
        lambda: marked(rng), lambda: hangul(rng), lambda: run(rng, "digits"),
        lambda: str(rng.randint(0, 10**rng.randint(1, 12))), lambda: run(rng, rng.choice(kinds)),
        lambda: run(rng, rng.choice(kinds), 3), lambda: rng.choice("ab \n1.") * rng.randint(1, 20),
        lambda: run(rng, "ascii", 6)])()


def old(c):
    """Whether Unicode 3.2 had this character, so that every library knows it."""
    return unicodedata.ucd_3_2_0.category(c) != "Cn"


def make_strings(rng):
    """Byte strings, all different; some kinds pure, most of them mixed."""
    stories = make_stories.make_stories(200, 77)
    fixed = [b"", b" ", b"\n", b"\x00", "\ufeff".encode(), *BAD_BYTES]
    texts = SENTENCES + SNIPPETS + SPACES + CONTRACTIONS + SPECIAL + NEAR_SPECIAL
    fixed += [s.encode() for s in texts]
    strings = dict.fromkeys(fixed)
    while len(strings) < COUNT:
        story, draw = rng.choice(stories), rng.random()
        text = "".join(piece(rng, story) for _ in range(rng.choice([1, 1, 2, 2, 3, 4])))
        if draw < 0.06:  # special-token text, whole or nearly
            at = rng.randint(0, len(text))
            inside = [rng.choice(SPECIAL + NEAR_SPECIAL[:2]) for _ in range(rng.randint(1, 3))]
            text = text[:at] + "".join(inside) + text[at:]
        data = text.encode("utf-8")
        if draw > 0.88:  # broken UTF-8: a bad sequence inside, or cut at any byte
            at = rng.randint(0, len(data))
            data = data[:at] + rng.choice(BAD_BYTES) + data[at:]
            data = data[:rng.randint(0, len(data))] if draw > 0.96 else data
            if not all(c in text or old(c) for c in data.decode("utf-8", "replace")):
                continue  # the bad bytes happened to make a character of a newer Unicode
        strings[data] = None
    return list(strings)


def packed(items, dtype):
    """Sequences of small numbers as one flat tensor and its offsets."""
    offsets = [0]
    for item in items:
        offsets.append(offsets[-1] + len(item))
    flat = [x for item in items for x in item]
    return torch.tensor(flat, dtype=torch.int32).to(dtype), torch.tensor(offsets, dtype=torch.int32)


def make(tokenizer):
    """All tensors, for one tokenizers.Tokenizer."""
    rng = random.Random(20240611)
    strings = make_strings(rng)
    text = [s.decode("utf-8", "replace") for s in strings]
    encode = lambda batch: [e.ids for e in tokenizer.encode_batch(batch, add_special_tokens=False)]
    tokenizer.encode_special_tokens = True
    ids = encode(text)
    tokenizer.encode_special_tokens = False
    special = [i for i, t in enumerate(text) if any(s in t for s in SPECIAL)]
    parsed = encode([text[i] for i in special])
    one = lambda: rng.randrange(300 if rng.random() < 0.8 else tokenizer.get_vocab_size())
    to_decode = [[one() for _ in range(rng.randint(1, 12))] for _ in range(400)]
    decoded = [tokenizer.decode(x, skip_special_tokens=False).encode() for x in to_decode]
    invalid = sum("\ufffd".encode() in d for d in decoded)
    changed = sum(a != b for a, b in zip(parsed, (ids[i] for i in special)))
    print(f"{len(strings)} strings, {sum(map(len, strings))} bytes, {sum(map(len, ids))} ids; "
          f"{len(special)} with special-token text, {changed} of them differ; "
          f"{invalid} of {len(decoded)} decodings are not valid UTF-8")
    out = {"special_index": torch.tensor(special, dtype=torch.int32)}
    for name, offsets, items, dtype in (
            ("text", "text_offsets", strings, torch.uint8),
            ("ids", "id_offsets", ids, torch.uint16),
            ("special_ids", "special_offsets", parsed, torch.uint16),
            ("decode_ids", "decode_offsets", to_decode, torch.uint16),
            ("decoded", "decoded_offsets", decoded, torch.uint8)):
        out[name], out[offsets] = packed(items, dtype)
    return out
