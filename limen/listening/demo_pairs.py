"""Adversarial pairs from the embedded spoken commands at several loudness levels, attacked with the shipped
model."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from limen.attacks.engine.run import Attack
from limen.audio.files import write_clip
from limen.audio.loudness import FULL_SCALE, Loudness
from limen.core.components import parse
from limen.core.types import Batch, Samples, predictions
from limen.listening.from_run import NAMELESS, ClipPair, balanced
from limen.models.base.load import load_model

LEVEL_DB = {"low": 45.0, "medium": 60.0, "high": 70.5}
"""Mean magnitude of clips of each loudness level, in dB on the 16-bit scale."""
ATTACK = {"name": "pgd", "steps": 10, "budget": {"name": "linf", "eps": 0.004}}
"""The same bound for loud and quiet clips, as in the published study: in quiet clips the attack can be
heard."""


def demo_pairs(folder: Path, count: int, levels: Sequence[Loudness], seed: int = 0) -> list[ClipPair]:
    """`count` pairs, or as many as the embedded data give, written into the folder, balanced over levels and
    words."""
    model, attack = load_model({"name": "res8"}), Attack.parse(ATTACK)
    component, options = parse(
        "data", {"name": "spoken_words", "split": "test", "limit": 24 + 4 * count // len(levels)}
    )
    data = component.function(options)
    clips, classes = data.all(), data.classes
    found = []
    for level in levels:
        batch = _at(clips, level)
        attacked = attack(model, batch, store="int16")
        samples = Samples(batch, attacked.x_adv)
        clean_classes, adversarial_classes = predictions(attacked.clean), predictions(attacked.adversarial)
        for i, identity in enumerate(batch.ids):
            word, as_word = classes[int(batch.y[i])], classes[int(adversarial_classes[i])]
            if classes[int(clean_classes[i])] != word or as_word == word or word in NAMELESS:
                continue
            clean, adversarial = (
                folder / f"{level}-{i:04d}-{which}.wav" for which in ("clean", "adversarial")
            )
            for path, x in zip((clean, adversarial), samples.pair(i), strict=True):
                write_clip(path, x, data.rate_hz)
            found.append(ClipPair(f"{identity}@{level}", clean, adversarial, word, as_word, "pgd", level))
    return balanced(found, count, seed)


def _at(clips: Batch, level: str) -> Batch:
    """Clips set to a loudness level, without those that would clip."""
    magnitude = clips.x.abs().mean(1, keepdim=True).clamp(min=1e-6)
    scaled = clips.x * (10 ** (LEVEL_DB[level] / 20) / FULL_SCALE / magnitude)
    return replace(clips, x=scaled).rows((scaled.abs().amax(1) < 0.99).nonzero()[:, 0])
