"""Cost of a gradient step of a search on Whisper relative to a bare forward and backward pass of the same
network.

python benchmarks/bench_whisper_gradient.py        prints the table and writes it to docs/benchmarks_speech.md

First: limen data get whisper-tiny.en && limen data get whisper-base && limen data get asterisk-en

Bare: the loss of the true texts and its gradient in single precision, with all clips in one padded batch and
all threads, as a loop of a few lines would compute it. A step: the time of an untargeted pgd search in its
default setting, with decoding and confirmations on the full 30 s, divided by its number of gradients, under a
budget so small that almost no clip ends early. Both run in turn in the same process, so that the ratio does
not depend on the load of the machine.
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
HEADING = "# Cost of a step on Whisper"
INTRODUCTION = """{heading}

Written by `python benchmarks/bench_whisper_gradient.py`: {clips} recorded prompts of up to 4 s that Whisper transcribes correctly,
untargeted `pgd` of {steps} steps in its default setting at {snr_db} dB, {threads} thread(s) of torch. A step is the time of the search, with
decoding and confirmations on the full 30 s, divided by its number of gradients; bare is the loss and its gradient of the same clips in one
padded batch, in single precision. Median and range of {rounds} rounds, each with both in turn. A claimed success costs an additional
forward pass over the full 30 s, as much as about four steps. The default of 40 steps makes this check at 6 of them; a search of only 10
steps makes it at 4, and its cost was 1.24 times the bare one on tiny.en.

| model | clips that used all steps | bare, s | step, s | step / bare | range |
|---|---|---|---|---|---|
"""


def bare(model, batch: Batch, texts: list[str]) -> float:
    """Seconds of one forward and backward pass over all clips at once."""
    begun = time.perf_counter()
    x = batch.x.clone().requires_grad_()
    part = model._encode(x, batch.lengths)  # one padded batch; a call of the model processes clip after clip
    answers = WhisperTranscripts(model.network, model.tokens, [part], model.decoding)
    torch.autograd.grad(answers.nll(texts).sum(), x)
    return time.perf_counter() - begun


def step(attack: Attack, model, batch: Batch) -> tuple[float, int]:
    """Seconds of a search per gradient of the batch, and the number of clips whose search ended early."""
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
