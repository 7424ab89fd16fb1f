"""How well a model answers on clean samples: accuracy, or word and character error rates, with 95 % intervals."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from limen import seeds
from limen.data._dataset import Dataset
from limen.models._model import Model, evaluating


@torch.no_grad()
def score(model: Model, data: Dataset, *, batch_size: int = 64, seed: int = 0) -> dict[str, Any]:
    """{"n", "accuracy", "low", "high"} of a classifier; {"n", "wer", "cer", "low", "high"} of a recogniser (interval of wer)."""
    right, words, characters = [], [], []
    device = next(model.parameters()).device
    with evaluating(model):
        for batch in data.batches(batch_size):
            outputs = model(batch.x.to(device), batch.lengths, seeds.generators(seed, batch.ids, "clean"))
            if isinstance(outputs, Tensor):
                assert isinstance(batch.y, Tensor)
                right += (outputs.argmax(1).cpu() == batch.y).tolist()
            else:
                for said, heard in zip(batch.y, outputs.texts(), strict=True):
                    words.append((edits(said.split(), heard.split()), len(said.split())))
                    characters.append((edits(said, heard), len(said)))
    if right:
        low, high = wilson(sum(right), len(right))
        return {"n": len(right), "accuracy": sum(right) / len(right), "low": low, "high": high}
    low, high = _bootstrap(words)
    return {"n": len(words), "wer": _rate(words), "cer": _rate(characters), "low": low, "high": high}


def edits(said: Sequence[Any], heard: Sequence[Any]) -> int:
    """Levenshtein distance: fewest substitutions, deletions and insertions."""
    row = list(range(len(heard) + 1))
    for i, a in enumerate(said, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(heard, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]


def wilson(hits: int, n: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927)."""
    z, p = 1.959964, hits / n
    centre, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n)


def _rate(counts: Sequence[tuple[int, int]]) -> float:
    return sum(c for c, _ in counts) / max(sum(n for _, n in counts), 1)


def _bootstrap(counts: Sequence[tuple[int, int]], draws: int = 1000) -> tuple[float, float]:
    """95 % interval of an error rate: clips drawn again with replacement, because errors of one clip go together."""
    table = torch.tensor(counts, dtype=torch.float64)
    pick = torch.randint(len(table), (draws, len(table)), generator=seeds.generator(0, "bootstrap"))
    rates = table[:, 0][pick].sum(1) / table[:, 1][pick].sum(1)
    return float(rates.quantile(0.025)), float(rates.quantile(0.975))
