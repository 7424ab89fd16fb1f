"""Beam search for the most likely text, for CTC and for autoregressive decoders."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

State = tuple[Tensor, ...]
"""State and memory of a decoder: tensors with one row per hypothesis."""

Step = Callable[[Tensor, State], tuple[Tensor, State]]
"""Function from the last tokens (n,) and the state of each hypothesis to log-probabilities of the next
token (n, K) and the new state."""

END = 0
"""The token that ends a text and precedes its first character."""


def prefix_beam(log_probs: np.ndarray, width: int) -> list[tuple[tuple[int, ...], float]]:
    """CTC prefix beam search, Hannun et al. 2014, https://arxiv.org/abs/1408.2873, without a language model.

    Log-probabilities (F, K), with the blank as symbol 0, to at most `width` pairs (symbols, log-probability),
    most likely first. The probability of a prefix is the sum over its alignments, separately for those that
    end with a blank: only after a blank may a symbol be repeated.
    """
    beam: dict[tuple[int, ...], tuple[float, float]] = {(): (1.0, 0.0)}
    scale = 0.0
    for frame in np.exp(log_probs).tolist():
        blank: dict[tuple[int, ...], float] = defaultdict(float)
        other: dict[tuple[int, ...], float] = defaultdict(float)
        for prefix, (after_blank, after_symbol) in beam.items():
            last, both = prefix[-1] if prefix else 0, after_blank + after_symbol
            blank[prefix] += both * frame[0]
            for s, p in enumerate(frame[1:], 1):
                if s == last:
                    other[prefix] += after_symbol * p
                    other[(*prefix, s)] += after_blank * p
                else:
                    other[(*prefix, s)] += both * p
        kept = sorted(
            blank.keys() | other.keys(), key=lambda prefix: (-blank[prefix] - other[prefix], prefix)
        )[:width]
        total = (
            blank[kept[0]] + other[kept[0]] or 1.0
        )  # rescaled at every frame: the product over a long clip underflows
        scale += math.log(total)
        beam = {prefix: (blank[prefix] / total, other[prefix] / total) for prefix in kept}
    found = [(prefix, a + b) for prefix, (a, b) in beam.items() if a + b > 0]
    return [(prefix, math.log(p) + scale) for prefix, p in found] or [((), -math.inf)]


def beam_search(step: Step, state: State, limits: Sequence[int], width: int) -> list[tuple[list[int], float]]:
    """The most likely token sequence found for each clip and its log-probability; `state` has one row per
    clip.

    A text ends with the token END or at the maximum length of its clip, in `limits`. The search of a clip
    ends when no unfinished text can overtake its best finished one: every further token lowers the
    log-probability. Width 1 is greedy decoding.
    """
    n, device = len(limits), state[0].device
    best: list[tuple[list[int], float]] = [([], -math.inf)] * n
    clips = list(range(n))  # clip of each unfinished hypothesis; grouped by clip, most likely first
    texts: list[list[int]] = [[] for _ in range(n)]
    scores = torch.zeros(n, dtype=torch.float64, device=device)
    while clips:
        last = torch.tensor([text[-1] if text else END for text in texts], device=device)
        log_probs, state = step(last, state)
        totals = scores[:, None] + log_probs.double()
        values, places = (t.tolist() for t in totals.topk(min(width, totals.shape[1]), dim=1))
        parents: list[int] = []
        tokens: list[int] = []
        for clip, rows in _groups(clips):
            met = [
                (value, row, token)
                for row in rows
                for value, token in zip(values[row], places[row], strict=True)
            ]
            going = []
            for value, parent, token in sorted(met, key=lambda candidate: -candidate[0])[:width]:
                text = texts[parent] if token == END else [*texts[parent], token]
                if token != END and len(text) < limits[clip]:
                    going.append((parent, token, value))
                elif value > best[clip][1]:
                    best[clip] = (text, value)
            going = [g for g in going if g[2] > best[clip][1]]
            parents += [g[0] for g in going]
            tokens += [g[1] for g in going]
        same = parents == list(range(len(texts)))  # no hypothesis has ended or branched
        index = torch.tensor(parents, dtype=torch.long, device=device)
        texts = [[*texts[p], t] for p, t in zip(parents, tokens, strict=True)]
        scores = totals[index, torch.tensor(tokens, dtype=torch.long, device=device)]
        if not same:
            clips, state = [clips[p] for p in parents], tuple(s[index] for s in state)
    return best


def _groups(clips: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Runs of equal clip numbers: [(clip, rows)]."""
    groups: dict[int, list[int]] = {}
    for row, clip in enumerate(clips):
        groups.setdefault(clip, []).append(row)
    return list(groups.items())
