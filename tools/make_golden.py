#!/usr/bin/env python3
"""Makes the golden values of tests/golden with Hugging Face transformers and tokenizers.

    python3 tools/make_golden.py --out tests/golden        # a GPU is used for the bf16 runs

For each model (small random ones in tests/golden/NAME, and models/tiny) a golden.safetensors holds
  ids.N         I32 [length]       the tokens of sequence N
  rows.N        I32 [rows]         the rows whose logits are stored, ascending, the last one always
  logits.N      F32 [rows, vocab]  transformers, fp32 arithmetic on the weights of the file, eager
  bf16_error    F32 [1]            ||bf16 - fp32|| / ||fp32|| of transformers' own bf16 run
and tests/golden/tokenizer.safetensors holds strings with the ids that models/tiny's tokenizer gives
them in Hugging Face's library (see golden_strings.py). Seeds are fixed.
"""
import argparse
import json
import pathlib
import shutil

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import Qwen3Config, Qwen3ForCausalLM

import golden_strings
import make_stories

# Awkward on purpose: lengths on both sides of 64 and 256, odd widths, every kind of file.
LENGTHS = [1, 2, 17, 64, 65, 130, 257, 300]
CONFIGS = {
    "gqa1_dim64_fp32": dict(seed=1, hidden=64, layers=2, heads=2, kv_heads=2, head_dim=64, inter=96,
                            dtype="float32", tie=False, theta=1e6, style="old"),
    "gqa2_dim128_bf16": dict(seed=2, hidden=64, layers=2, heads=2, kv_heads=1, head_dim=128,
                             inter=96, dtype="bfloat16", tie=True, theta=1e4, style="no head_dim"),
    "gqa4_dim80_bf16": dict(seed=3, hidden=64, layers=2, heads=4, kv_heads=1, head_dim=80, inter=96,
                            dtype="bfloat16", tie=False, theta=1e6, style="sharded"),
    "gqa8_dim64_fp16": dict(seed=4, hidden=64, layers=2, heads=8, kv_heads=1, head_dim=64, inter=96,
                            dtype="float16", tie=True, theta=1e4, style="tied with head"),
    "gqa2_dim96_bf16": dict(seed=5, hidden=96, layers=2, heads=2, kv_heads=1, head_dim=96,
                            inter=160, dtype="bfloat16", tie=False, theta=5e5, style="new"),
    "gqa4_dim128_fp16": dict(seed=7, hidden=32, layers=2, heads=4, kv_heads=1, head_dim=128,
                             inter=64, dtype="float16", tie=True, theta=1e6, style="old"),
    "gqa2_dim64_windows": dict(seed=8, hidden=64, layers=3, heads=2, kv_heads=1, head_dim=64, inter=96,
                               dtype="bfloat16", tie=True, theta=1e4, style="new",
                               types=["sliding_attention", "full_attention", "sliding_attention"],
                               window=100),
}
VOCAB = 320


def make_random_model(folder, c):
    """A model folder with random weights, large enough that every error is visible."""
    torch.manual_seed(c["seed"])
    config = Qwen3Config(
        vocab_size=VOCAB, hidden_size=c["hidden"], intermediate_size=c["inter"],
        num_hidden_layers=c["layers"], num_attention_heads=c["heads"],
        num_key_value_heads=c["kv_heads"], head_dim=c["head_dim"], max_position_embeddings=512,
        rope_parameters={"rope_type": "default", "rope_theta": c["theta"]}, rms_norm_eps=1e-6,
        tie_word_embeddings=c["tie"], attention_bias=False, bos_token_id=None,
        eos_token_id=VOCAB - 1, layer_types=c.get("types"), use_sliding_window="window" in c,
        sliding_window=c.get("window"))
    model = Qwen3ForCausalLM(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(0.0, 0.1)
    model = model.to(getattr(torch, c["dtype"]))
    shutil.rmtree(folder, ignore_errors=True)
    shard = {"max_shard_size": "150KB"} if c["style"] == "sharded" else {}
    model.save_pretrained(folder, **shard)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if c["style"] == "tied with head":  # like the released Qwen3-0.6B
        tensors = load_file(folder / "model.safetensors")
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    restyle_config(folder / "config.json", c)


def restyle_config(path, c):
    """Turns what transformers 5 wrote into what its 4th generation wrote, where asked."""
    config = json.loads(path.read_text())
    if c["style"] == "old":
        config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
        config["rope_scaling"] = None
        config["torch_dtype"] = config.pop("dtype")
        config["transformers_version"] = "4.51.0"
        config.pop("layer_types", None)
    if c["style"] == "no head_dim":
        config.pop("head_dim")
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def stored_rows(length, every):
    """The rows around the boundaries at 64 and 256, the ends, and a few between."""
    rows = {0, 1, 16, 63, 64, 65, 128, 255, 256, length - 1}
    rows |= set(range(0, length, every))
    return sorted(r for r in rows if 0 <= r < length)


@torch.no_grad()
def golden_of(folder, sequences, every):
    """The tensors of one golden.safetensors, and a line to print."""
    load = lambda dtype: Qwen3ForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager").eval()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    exact, rough = load(torch.float32), load(torch.bfloat16).to(device)
    difference, norm, out = 0.0, 0.0, {}
    for n, ids in enumerate(sequences):
        ids = torch.tensor([ids])
        want = exact(input_ids=ids).logits[0].float()
        got = rough(input_ids=ids.to(device)).logits[0].float().cpu()
        difference += (got - want).double().square().sum().item()
        norm += want.double().square().sum().item()
        rows = stored_rows(len(ids[0]), every)
        out[f"ids.{n}"] = ids[0].int()
        out[f"rows.{n}"] = torch.tensor(rows, dtype=torch.int32)
        out[f"logits.{n}"] = want[rows].contiguous()
    error = (difference / norm) ** 0.5
    out["bf16_error"] = torch.tensor([error], dtype=torch.float32)
    shape = exact.config
    return out, (f"{folder.name:18} head_dim {shape.head_dim:3}  "
                 f"heads {shape.num_attention_heads:2}/{shape.num_key_value_heads}  "
                 f"bf16 error {error:.2e}  std {want.std():.2f}")


def tiny_sequences(tokenizer):
    """Stories from a seed that training did not see, cut or joined to awkward lengths."""
    text = "".join(make_stories.make_stories(8, 4242))
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    return [ids[start:start + length] for start, length in
            [(0, 1), (3, 2), (0, 17), (40, 65), (0, 130), (7, 257), (0, 700)]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default="tests/golden")
    parser.add_argument("--tiny", type=pathlib.Path, default="models/tiny")
    parser.add_argument("--only", choices=CONFIGS, help="this model of tests/golden, and nothing else")
    args = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer.from_file(str(args.tiny / "tokenizer.json"))
    if not args.only:
        save_file(golden_strings.make(tokenizer), args.out / "tokenizer.safetensors")

    for name, c in CONFIGS.items():
        if args.only not in (None, name):
            continue
        make_random_model(args.out / name, c)
        random = np.random.default_rng(c["seed"])
        sequences = [random.integers(0, VOCAB, n).tolist() for n in LENGTHS]
        tensors, line = golden_of(args.out / name, sequences, every=120)
        save_file(tensors, args.out / name / "golden.safetensors")
        print(line, flush=True)
    if args.only:
        return
    tensors, line = golden_of(args.tiny, tiny_sequences(tokenizer), every=200)
    (args.out / "tiny").mkdir(exist_ok=True)
    save_file(tensors, args.out / "tiny" / "golden.safetensors")
    print(line)


if __name__ == "__main__":
    main()
