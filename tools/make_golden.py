#!/usr/bin/env python3
"""Makes the golden values of tests/golden again, with Hugging Face transformers and tokenizers.

    python3 tools/make_golden.py        # a GPU is used for the bf16 runs

For each model (small random ones in tests/golden/NAME, and models/tiny) a golden.safetensors holds
  ids.N         I32 [length]       the tokens of sequence N
  rows.N        I32 [rows]         the rows whose logits are stored, ascending, the last one always
  logits.N      F32 [rows, vocab]  transformers, fp32 arithmetic on the weights of the file, eager
  bf16_error    F32 [1]            ||bf16 - fp32|| / ||fp32|| of transformers' own bf16 run
and tests/golden/tokenizer.safetensors holds 10,000 strings that a byte-level BPE can get wrong (code, emoji, marks in any
order, broken UTF-8, the text of special tokens), with the ids that models/tiny's tokenizer gives them in Hugging Face's
library. Offsets have one entry more than there are strings:
  text, text_offsets              U8, I32   the strings' bytes, one after another; not always UTF-8
  ids, id_offsets                 U16, I32  special-token text read as plain text
  special_index                   I32       strings with special-token text in them ...
  special_ids, special_offsets    U16, I32  ... and their ids when such text is parsed
  decode_ids, decode_offsets      U16, I32  random ids, most of them no valid UTF-8 when joined ...
  decoded, decoded_offsets        U8, I32   ... and what they decode to, special tokens shown
Invalid UTF-8 is handed to Hugging Face as bytes.decode("utf-8", "replace"). All code points were
assigned in Unicode 14 or before, so that libraries of different age agree.

Tokens, rows and strings stay as they are; what the libraries make of them is computed again. A new folder
tests/golden/NAME, as ./course make-model writes one, gets random tokens.
"""
import pathlib

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import Qwen3ForCausalLM

ROOT = pathlib.Path(__file__).resolve().parents[1]
GOLDEN, TINY = ROOT / "tests/golden", ROOT / "models/tiny"
LENGTHS = [1, 2, 17, 64, 65, 130, 257, 300]  # awkward on purpose: on both sides of 64 and 256


def stored_rows(length):
    """The rows around the boundaries at 64 and 256, the ends, and a few between."""
    rows = {0, 1, 16, 63, 64, 65, 128, 255, 256, length - 1, *range(0, length, 120)}
    return torch.tensor(sorted(row for row in rows if row < length), dtype=torch.int32)


def new_sequences(vocab):
    torch.manual_seed(1)
    tensors = {}
    for n, length in enumerate(LENGTHS):
        tensors[f"ids.{n}"] = torch.randint(0, vocab, (length,), dtype=torch.int32)
        tensors[f"rows.{n}"] = stored_rows(length)
    return tensors


@torch.no_grad()
def make_logits(folder, path):
    """A model's golden.safetensors."""
    load = lambda dtype: Qwen3ForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    exact, rough = load(torch.float32), load(torch.bfloat16).to(device)
    tensors = load_file(path) if path.exists() else new_sequences(exact.config.vocab_size)
    difference = norm = 0.0
    for n in range(sum(name.startswith("ids.") for name in tensors)):
        ids = tensors[f"ids.{n}"][None].long()
        want = exact(input_ids=ids).logits[0].float()
        got = rough(input_ids=ids.to(device)).logits[0].float().cpu()
        difference += (got - want).double().square().sum().item()
        norm += want.double().square().sum().item()
        tensors[f"logits.{n}"] = want[tensors[f"rows.{n}"].long()].contiguous()
    error = (difference / norm) ** 0.5
    tensors["bf16_error"] = torch.tensor([error], dtype=torch.float32)
    path.parent.mkdir(exist_ok=True)
    save_file(tensors, path)
    shape = exact.config
    print(f"{folder.name:18} head_dim {shape.head_dim:3}  heads {shape.num_attention_heads:2}/{shape.num_key_value_heads}  "
          f"bf16 error {error:.2e}  std {want.std():.2f}", flush=True)


def packed(items, dtype):
    """Sequences of small numbers as one flat tensor and its offsets."""
    lengths = torch.tensor([0, *map(len, items)])
    flat = torch.tensor([x for item in items for x in item], dtype=torch.int32)
    return flat.to(dtype), lengths.cumsum(0).int()


def unpacked(flat, offsets):
    ends = offsets.tolist()
    return [flat[begin:end].tolist() for begin, end in zip(ends, ends[1:])]


def make_ids(path):
    """tokenizer.safetensors."""
    tensors = load_file(path)
    tokenizer = Tokenizer.from_file(str(TINY / "tokenizer.json"))
    encode = lambda batch: [one.ids for one in tokenizer.encode_batch(batch, add_special_tokens=False)]
    text = [bytes(one).decode("utf-8", "replace") for one in unpacked(tensors["text"], tensors["text_offsets"])]
    tokenizer.encode_special_tokens = True
    ids = encode(text)
    tokenizer.encode_special_tokens = False
    parsed = encode([text[i] for i in tensors["special_index"].tolist()])
    to_decode = unpacked(tensors["decode_ids"], tensors["decode_offsets"])
    decoded = [tokenizer.decode(one, skip_special_tokens=False).encode() for one in to_decode]
    tensors["ids"], tensors["id_offsets"] = packed(ids, torch.uint16)
    tensors["special_ids"], tensors["special_offsets"] = packed(parsed, torch.uint16)
    tensors["decoded"], tensors["decoded_offsets"] = packed(decoded, torch.uint8)
    save_file(tensors, path)


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    make_ids(GOLDEN / "tokenizer.safetensors")
    for config in sorted(GOLDEN.glob("*/config.json")):
        make_logits(config.parent, config.with_name("golden.safetensors"))
    make_logits(TINY, GOLDEN / "tiny/golden.safetensors")


if __name__ == "__main__":
    main()
