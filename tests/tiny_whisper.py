"""A Whisper of the real architecture, small and random, written as `save_pretrained` of transformers writes
it."""

import json

import torch

WORDS = ("th", "the", " the", "in", " go", "ok", " ok", " now", " stop")
"""Byte pairs beside the 256 bytes; each is joined from two that stand before it, or never."""
POSITIONS = 100
"""A tiny Whisper hears 2 s."""


def vocabulary():
    """Bytes, their joins and the specials, in Hugging Face's printable spelling."""
    prints = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in prints]
    spelling = {b: chr(b) for b in prints} | {b: chr(256 + i) for i, b in enumerate(others)}
    tokens = [bytes([b]) for b in (*prints, *others)]
    for word in WORDS:
        text = word.encode()
        tokens += [text[:n] for n in range(2, len(text) + 1) if text[:n] not in tokens]
    return {"".join(spelling[b] for b in token): i for i, token in enumerate(tokens)}


def write_folder(folder, multilingual=True, seed=0):
    """A random Whisper as `save_pretrained` writes it."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    words = vocabulary()
    end = len(words)
    size = end + 2 + 99 + 1507
    sizes = {
        f"{side}_{name}": n
        for side in ("encoder", "decoder")
        for name, n in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 128))
    }
    config = WhisperConfig(
        vocab_size=size,
        d_model=32,
        max_source_positions=POSITIONS,
        max_target_positions=40,
        num_mel_bins=80,
        **sizes,
        eos_token_id=end,
        pad_token_id=end,
        bos_token_id=end,
        decoder_start_token_id=end + 1,
        init_std=0.3,
    )
    torch.manual_seed(seed)
    theirs = WhisperForConditionalGeneration(config).eval()
    theirs.save_pretrained(folder)
    (folder / "vocab.json").write_text(json.dumps({**words, "<|endoftext|>": end}))
    (folder / "generation_config.json").write_text(json.dumps({"is_multilingual": multilingual}))
    return theirs
