"""Scores of a model on clean samples: accuracy, word and character error rates with 95 % intervals, or the
mean error of signals and distances."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from limen.core import seeds
from limen.core.edits import edits
from limen.core.statistics import pooled, wilson
from limen.core.types import Batch, Values, valid
from limen.data.base.dataset import Dataset
from limen.models.base.model import Model, evaluating
from limen.models.speech.self_supervised import Encoded


@torch.no_grad()
def score(model: Model, data: Dataset, *, batch_size: int = 64, seed: int = 0) -> dict[str, Any]:
    """{"n", "accuracy", "low", "high"} of a classifier; {"n", "wer", "cer", "low", "high"} of a recogniser
    (interval of wer); {"n", "error"}, the mean absolute error, of signals and distances.

    For a self-supervised encoder, the accuracy is the share of masked frames that it identifies among
    distractors.
    """
    right, words, characters, frames, errors = [], [], [], [], []
    device = next(model.parameters()).device
    with evaluating(model):
        for batch in data.batches(batch_size):
            outputs = model(batch.x.to(device), batch.lengths, seeds.generators(seed, batch.ids, "clean"))
            if isinstance(outputs, Tensor):
                assert isinstance(batch.y, Tensor)
                right += (outputs.argmax(1).cpu() == batch.y).tolist()
            elif isinstance(outputs, Encoded):
                frames += outputs.identified_frames(seeds.generators(seed, batch.ids, "hidden"))
            elif isinstance(outputs, Values):
                errors += absolute_errors(outputs, batch)
            else:
                for truth, text in zip(batch.y, outputs.texts(), strict=True):
                    words.append((edits(truth.split(), text.split()).errors, len(truth.split())))
                    characters.append((edits(truth, text).errors, len(truth)))
    if right:
        low, high = wilson(sum(right), len(right))
        return {"n": len(right), "accuracy": sum(right) / len(right), "low": low, "high": high}
    if frames:
        share = pooled([k for k, _ in frames], [n for _, n in frames])
        return {"n": len(frames), "accuracy": share["mean"], "low": share["low"], "high": share["high"]}
    if errors:
        return {"n": len(errors), "error": sum(errors) / len(errors)}
    wer, cer = (pooled([e for e, _ in counts], [n for _, n in counts]) for counts in (words, characters))
    return {"n": len(words), "wer": wer["mean"], "cer": cer["mean"], "low": wer["low"], "high": wer["high"]}


def absolute_errors(outputs: Values, batch: Batch) -> list[float]:
    """The mean absolute difference between values and truth of each sample, without padding."""
    assert isinstance(batch.y, Tensor)
    difference = (outputs.values.cpu() - batch.y).abs()
    mask = valid(batch.x, batch.lengths) if difference.shape == batch.x.shape else None
    if mask is None:
        return difference.reshape(len(difference), -1).mean(1).tolist()
    return ((difference * mask).sum(1) / mask.sum(1)).tolist()


def merit(row: Mapping[str, Any]) -> float:
    """The validation score of an epoch, higher is better: accuracy, minus the error rates or the error, or
    (without a validation split) minus the loss."""
    if "valid_accuracy" in row:
        return row["valid_accuracy"]
    if "valid_wer" in row:
        return -(row["valid_wer"] + row["valid_cer"])
    return -row["valid_error"] if "valid_error" in row else -row["loss"]
