#!/usr/bin/env python3
"""Trains the Qwen3 of models/tiny on our own stories (minutes on one GPU).

    python3 models/tiny/making/train_tokenizer.py --out models/tiny
    python3 models/tiny/making/train_model.py --dir models/tiny

Reads DIR/tokenizer.json; writes DIR/config.json and DIR/model.safetensors (bf16, names as Hugging
Face has them).
Then it measures the loss of the weights as saved on stories that were never seen; what they tell,
./course run 2 --prompt shows.
"""
import argparse
import array
import json
import math
import pathlib
import time

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from transformers import Qwen3Config, Qwen3ForCausalLM

import make_stories

STORIES, STEPS, PEAK_LR, SEED = 150000, 9000, 3e-3, 1
# (rows, tokens) of a batch, in turn: short rows for good starts, long ones for endurance.
SHAPES = [(64, 512), (16, 2048)]


def make_config(tokenizer):
    end, im_end = (tokenizer.token_to_id(t) for t in ("<|endoftext|>", "<|im_end|>"))
    return Qwen3Config(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=128, intermediate_size=384,
        num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=2, head_dim=32,
        max_position_embeddings=2048, rms_norm_eps=1e-6, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, attention_bias=False,
        initializer_range=0.02, bos_token_id=None, eos_token_id=[end, im_end], pad_token_id=end)


def encode_all(tokenizer, samples):
    """All samples as one array of ids, and where each sample begins."""
    ids, starts = array.array("H"), []
    for begin in range(0, len(samples), 4096):
        part = samples[begin:begin + 4096]
        for encoding in tokenizer.encode_batch(part, add_special_tokens=False):
            starts.append(len(ids))
            ids.extend(encoding.ids)
    return torch.frombuffer(ids, dtype=torch.uint16).int(), torch.tensor(starts)


def batch_of(ids, starts, rows, length, generator):
    """Rows that each begin with the beginning of a story, as every prompt does."""
    whole = int((starts < len(ids) - length - 1).sum())
    pick = torch.randint(0, whole, (rows,), generator=generator)
    return ids[starts[pick][:, None] + torch.arange(length + 1)].long()


def learning_rate(step):
    warm = min(1.0, (step + 1) / 200)
    return PEAK_LR * warm * 0.5 * (1 + math.cos(math.pi * step / STEPS))


def train(model, ids, starts):
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.95), fused=True)
    generator = torch.Generator().manual_seed(SEED)
    forward = torch.compile(lambda x: model(input_ids=x, use_cache=False).logits)
    begin = time.time()
    for step in range(STEPS):
        rows, length = SHAPES[step % len(SHAPES)]
        batch = batch_of(ids, starts, rows, length, generator).pin_memory().cuda(non_blocking=True)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = forward(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 500 == 0 or step == STEPS - 1 or step == 60:
            seconds = time.time() - begin
            print(f"step {step:5d}  loss {loss.item():.4f}  {seconds:.0f} s", flush=True)


@torch.no_grad()
def held_out_loss(model, tokenizer, samples):
    """Mean loss per token and its perplexity; every sample starts at position 0."""
    total, count = 0.0, 0
    for encoding in tokenizer.encode_batch(samples, add_special_tokens=False):
        ids = torch.tensor([encoding.ids]).cuda()
        logits = model(input_ids=ids).logits[0, :-1]
        total += F.cross_entropy(logits, ids[0, 1:], reduction="sum").item()
        count += len(encoding.ids) - 1
    return total / count, math.exp(total / count)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=pathlib.Path, default="models/tiny")
    args = parser.parse_args()
    torch.manual_seed(SEED)
    begin = time.time()
    tokenizer = Tokenizer.from_file(str(args.dir / "tokenizer.json"))
    samples = make_stories.make_stories(STORIES, SEED)
    ids, starts = encode_all(tokenizer, samples)
    print(f"{len(samples):,} stories, {len(ids):,} tokens, {time.time() - begin:.0f} s", flush=True)
    model = Qwen3ForCausalLM(make_config(tokenizer)).cuda()
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters")
    train(model, ids, starts)

    # What is measured is what is saved: the weights rounded to bf16, then computed with in fp32.
    model.to(torch.bfloat16).save_pretrained(args.dir)
    (args.dir / "generation_config.json").unlink(missing_ok=True)
    model = Qwen3ForCausalLM.from_pretrained(args.dir, dtype=torch.float32).cuda().eval()
    seen = set(samples)
    unseen = [s for s in make_stories.make_stories(2200, SEED + 1000) if s not in seen][:2000]
    loss, perplexity = held_out_loss(model, tokenizer, unseen)
    print(json.dumps({"held_out_stories": len(unseen), "loss": round(loss, 4),
                      "perplexity": round(perplexity, 4)}))


if __name__ == "__main__":
    main()
