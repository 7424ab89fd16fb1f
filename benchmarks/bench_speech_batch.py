"""Speed-up of an attack on a batch of eight clips over attacks on single clips, and a check of equal results.

python benchmarks/bench_speech_batch.py [steps]       prints the table and writes docs/benchmarks_speech.md

Both run in turn in the same process on the same threads, so the ratio does not depend on the load of the
machine. The batch must give each clip the same result as alone: the table has the largest difference of the
adversarial audio, and whether all transcripts agree.
"""

import sys
import time
from pathlib import Path

import torch

from limen.attacks.engine.run import Attack, Attacked
from limen.core.components import parse
from limen.core.types import Batch, predictions
from limen.models.base.load import load_model

NETS = [
    ({"name": "ctc_small"}, "digit_strings"),
    ({"name": "deepspeech2"}, "short_sentences"),
    ({"name": "lstm_seq2seq"}, "short_sentences"),
    ({"name": "lstm_seq2seq", "head": "ctc"}, "short_sentences"),
    ({"name": "transformer_seq2seq"}, "short_sentences"),
    ({"name": "transformer_seq2seq", "head": "ctc"}, "short_sentences"),
    ({"name": "wav2vec2_small"}, "digit_strings"),
]
ROUNDS = 5
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks_speech.md"
INTRODUCTION = """# Batches of eight clips

Written by `python benchmarks/bench_speech_batch.py`: attack with {steps} steps on eight clips of different lengths, one by one and as one
batch, in turn, with {threads} threads of torch; the best of {rounds} rounds. The networks are batch-invariant: a clip gets bit-identical
results alone and in a batch (the difference is that of the stored 16-bit audio). A batch is divided among as many threads; a single clip is
searched in one thread. The exception is `wav2vec2_small`: its convolutions over the waveform are computed in double precision and occupy all
cores with a single clip, so a batch gains little.

| model | attack | alone, s | batch, s | speed-up | largest difference | same transcripts |
|---|---|---|---|---|---|---|
"""


def alone(batch: Batch, i: int) -> Batch:
    """Clip i without padding."""
    assert batch.lengths is not None
    one = batch.rows([i])
    return Batch("clip", one.ids, one.x[:, : int(batch.lengths[i])], one.y, one.lengths)


def timed(attack: Attack, model, batches: list[Batch]) -> tuple[float, list[Attacked]]:
    begun = time.perf_counter()
    results = [attack(model, batch, store="int16") for batch in batches]
    return time.perf_counter() - begun, results


def main(steps: int) -> None:
    attacks = {
        "pgd, 30 dB": {
            "name": "pgd",
            "steps": steps,
            "early_stop": False,
            "budget": {"name": "snr", "snr_db": 30},
        },
        "cw": {"name": "cw", "steps": steps, "goal": {"name": "transcript", "text": "nine"}},
    }
    page = INTRODUCTION.format(steps=steps, threads=torch.get_num_threads(), rounds=ROUNDS)
    print(page, end="")
    for spec, data in NETS:
        model = load_model(spec)
        component, options = parse("data", {"name": data, "limit": 8})
        batch = component.function(options).all()
        for label, attack_spec in attacks.items():
            attack = Attack.parse(attack_spec)
            single, batched = [], []
            for _ in range(ROUNDS):
                seconds, ones = timed(attack, model, [alone(batch, i) for i in range(len(batch))])
                single.append(seconds)
                seconds, (many,) = timed(attack, model, [batch])
                batched.append(seconds)
            texts = predictions(many.adversarial)
            same = all(predictions(one.adversarial)[0] == texts[i] for i, one in enumerate(ones))
            apart = max(
                float((one.x_adv[0] - many.x_adv[i, : one.x_adv.shape[1]]).abs().max())
                for i, one in enumerate(ones)
            )
            name = f"{spec['name']}{' (CTC head)' if 'head' in spec else ''}"
            row = (
                f"| {name} | {label} | {min(single):.2f} | {min(batched):.2f} | {min(single) / min(batched):.1f} "
                f"| {apart:.1e} | "
            )
            row += f"{'yes' if same else 'no'} |\n"
            print(row, end="", flush=True)
            page += row
    PAGE.write_text(page)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
