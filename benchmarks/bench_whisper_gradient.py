"""What a gradient step of a search on Whisper costs beside a bare forward and backward pass of the same
network.

python benchmarks/bench_whisper_gradient.py        prints the table and writes it into
docs/benchmarks_speech.md First: limen data get whisper-tiny.en && limen data get whisper-base && limen data
get asterisk-en

Bare: the loss of the true texts and its gradient, single precision, all clips in one padded batch, all
threads: what a loop of a few lines would do. A step: the whole of an untargeted pgd search in its default
setting, by the gradients it asked for, decoding and confirmations on the full 30 s included, under a budget
so small that hardly a clip leaves. Both take turns in the same process, so that the ratio does not depend on
what else the machine does.
"""

import statistics
import time
from pathlib import Path

import torch

from limen.attacks.engine.run import Attack
from limen.core.components import parse
from limen.core.types import Batch
from limen.models.base.load import load_model
from limen.models.whisper.transcripts import WhisperTranscripts

CLIPS, STEPS, ROUNDS, SNR_DB = 4, 40, 3, 70
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks_speech.md"
HEADING = "# A step on Whisper"
INTRODUCTION = """{heading}

Written by `python benchmarks/bench_whisper_gradient.py`: {clips} recorded prompts of up to 4 s that are understood, untargeted `pgd`
of {steps} steps in its default setting at {snr_db} dB, {threads} thread(s) of torch. A step is the time of the whole search, decoding
and confirmations on the full 30 s included, by the gradients it asked for; bare is the loss and its gradient of the same clips in one
padded batch, in single precision. Median and range of {rounds} rounds, each with both in turn. A clip that claims success costs one
forward pass over the full 30 s besides, about as much as four steps. The 40 steps of the default ask at 6 of them; a search of
only 10 asks at 4, and cost 1.24 of bare on tiny.en.

| model | clips that stayed | bare, s | step, s | step / bare | range |
|---|---|---|---|---|---|
"""


def bare(model, batch: Batch, texts: list[str]) -> float:
    """Seconds of one forward and backward pass over all clips at once."""
    begun = time.perf_counter()
    x = batch.x.clone().requires_grad_()
    part = model._heard(
        x, batch.lengths
    )  # one padded batch: asked from outside, the model takes clip after clip
    answers = WhisperTranscripts(model.network, model.tokens, [part], model.writing)
    torch.autograd.grad(answers.nll(texts).sum(), x)
    return time.perf_counter() - begun


def step(attack: Attack, model, batch: Batch) -> tuple[float, int]:
    """Seconds of a search by the gradients per clip that it asked for, times the clips; and how many clips
    left early."""
    problem = attack.pose(model, batch, store="int16")
    begun = time.perf_counter()
    with torch.no_grad():
        attack._searched(problem, None)
    seconds = time.perf_counter() - begun
    made = problem.calls.backward
    return seconds * len(batch) / int(made.sum()), int((made < STEPS).sum())


def main() -> None:
    component, options = parse(
        "data", {"name": "asterisk", "language": "en", "longest_s": 4, "limit": 6 * CLIPS}
    )
    clips = component.function(options).all()
    page = INTRODUCTION.format(
        heading=HEADING,
        clips=CLIPS,
        steps=STEPS,
        rounds=ROUNDS,
        snr_db=SNR_DB,
        threads=torch.get_num_threads(),
    )
    print(page, end="")
    for size in ("tiny.en", "base"):
        model = load_model({"name": "whisper", "size": size}).requires_grad_(False)
        goal = {"name": "untargeted", "normalise": "english"}
        with torch.no_grad():
            right = ~Attack.parse({"name": "pgd", "goal": goal}).pose(model, clips).goal.judged(
                model(clips.x, clips.lengths)
            )
        batch = clips.rows(right.nonzero().squeeze(1)[:CLIPS])
        attack = Attack.parse(
            {"name": "pgd", "steps": STEPS, "goal": goal, "budget": {"name": "snr", "snr_db": SNR_DB}}
        )
        texts = attack.pose(model, batch).goal.reference
        bare(model.for_attack, batch, texts), step(attack, model, batch)  # the first passes are slower
        plain, steps, left = [], [], 0
        for _ in range(ROUNDS):
            before = bare(model.for_attack, batch, texts)
            each, left = step(attack, model, batch)
            steps.append(each)
            plain.append((before + bare(model.for_attack, batch, texts)) / 2)
        ratios = [a / b for a, b in zip(steps, plain, strict=True)]
        row = (
            f"| {size} | {len(batch) - left} of {len(batch)} | {statistics.median(plain):.3f} | "
            f"{statistics.median(steps):.3f} "
        )
        row += f"| {statistics.median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |\n"
        print(row, end="", flush=True)
        page += row
    others = PAGE.read_text().split(f"\n{HEADING}\n")[0].rstrip()
    PAGE.write_text(f"{others}\n\n{page}")


if __name__ == "__main__":
    main()
