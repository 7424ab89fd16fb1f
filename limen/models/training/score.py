"""How well a model answers on clean samples: accuracy, or word and character error rates, with 95 %
intervals."""

from typing import Any

import torch
from torch import Tensor

from limen.core import seeds
from limen.core.edits import edits
from limen.core.statistics import pooled, wilson
from limen.data.base.dataset import Dataset
from limen.models.base.model import Model, evaluating
from limen.models.speech.self_supervised import Encoded


@torch.no_grad()
def score(model: Model, data: Dataset, *, batch_size: int = 64, seed: int = 0) -> dict[str, Any]:
    """{"n", "accuracy", "low", "high"} of a classifier; {"n", "wer", "cer", "low", "high"} of a recogniser
    (interval of wer).

    Of a self-supervised encoder: the accuracy with which it tells its hidden frames from distractors."""
    right, words, characters, frames = [], [], [], []
    device = next(model.parameters()).device
    with evaluating(model):
        for batch in data.batches(batch_size):
            outputs = model(batch.x.to(device), batch.lengths, seeds.generators(seed, batch.ids, "clean"))
            if isinstance(outputs, Tensor):
                assert isinstance(batch.y, Tensor)
                right += (outputs.argmax(1).cpu() == batch.y).tolist()
            elif isinstance(outputs, Encoded):
                frames += outputs.told_apart(seeds.generators(seed, batch.ids, "hidden"))
            else:
                for said, heard in zip(batch.y, outputs.texts(), strict=True):
                    words.append((edits(said.split(), heard.split()).errors, len(said.split())))
                    characters.append((edits(said, heard).errors, len(said)))
    if right:
        low, high = wilson(sum(right), len(right))
        return {"n": len(right), "accuracy": sum(right) / len(right), "low": low, "high": high}
    if frames:
        told = pooled([k for k, _ in frames], [n for _, n in frames])
        return {"n": len(frames), "accuracy": told["mean"], "low": told["low"], "high": told["high"]}
    wer, cer = (pooled([e for e, _ in counts], [n for _, n in counts]) for counts in (words, characters))
    return {"n": len(words), "wer": wer["mean"], "cer": cer["mean"], "low": wer["low"], "high": wer["high"]}
