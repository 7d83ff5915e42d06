#!/usr/bin/env python3
"""Trains the tokenizer of models/tiny on our own stories: byte-level BPE as in the Qwen family.

    python3 models/tiny/making/train_tokenizer.py --out models/tiny

NFC, Qwen's split pattern, all 256 bytes, no unknown token; <|endoftext|>, <|im_start|> and
<|im_end|> are the last ids, as in Qwen's own tokenizer.
"""
import argparse
import pathlib
import re

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import trainers

import make_stories

SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VOCAB_SIZE = 2048  # in all: 256 bytes, the merges, and the special tokens


def train_tokenizer(samples):
    tokenizer = Tokenizer(models.BPE(byte_fallback=False))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=False, trim_offsets=False,
                                                    use_regex=False)
    trainer = trainers.BpeTrainer(vocab_size=VOCAB_SIZE - len(SPECIAL), show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    # Control tokens are not text: without them, no merge is spent on their letters.
    pattern = re.compile("|".join(re.escape(s) for s in SPECIAL))
    tokenizer.train_from_iterator((pattern.sub("", s) for s in samples), trainer)
    tokenizer.add_special_tokens(SPECIAL)
    assert tokenizer.get_vocab_size() == VOCAB_SIZE, tokenizer.get_vocab_size()
    return tokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, default="models/tiny")
    args = parser.parse_args()
    tokenizer = train_tokenizer(make_stories.make_stories(40000, 1))
    args.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(args.out / "tokenizer.json"), pretty=False)
    print(f"{args.out}/tokenizer.json: {tokenizer.get_vocab_size()} tokens")


if __name__ == "__main__":
    main()
