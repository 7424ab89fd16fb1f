"""CrAdv's tasks accuracy and constrained_accuracy: its numbers and JSON keys, each counted over exactly the
samples asked for."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import torch
from torch import Tensor

from limen.core import seeds
from limen.core.errors import UserError
from limen.core.types import Batch
from limen.experiments.cradv import as_published, plan, schema
from limen.experiments.cradv.attacks import adversarial
from limen.experiments.cradv.nets import Opened, Space, View
from limen.models.base.model import evaluating

SEED = 0
"""CrAdv sets no seed; here every draw depends only on this one and the sample."""


@dataclass(frozen=True)
class Run:
    """One net with at most one defence and one attack."""

    net: Opened
    victim: View
    """The evaluated model: the net behind its defence."""
    attacked_model: View
    """The model that the attack is computed on."""
    attack: plan.Attack | None
    limit: int | None
    """Number of samples, from the command line."""
    advance: Callable[[float], None]
    crafted: dict[str, Tensor] | None = None
    """Result of a universal attack that was crafted before."""
    exact: bool = False
    """Search and count as CrAdv does."""

    @property
    def space(self) -> Space:
        return self.net.space

    def samples(self, limit: int | None) -> int:
        available = min(len(self.net.data), self.limit or len(self.net.data))
        wanted = (
            as_published.full_batches(limit, self.net.spec.batch_size, available)
            if self.exact
            else limit or available
        )
        return min(wanted, available)

    def total(self, limit: int | None) -> int:
        """`total` in the result of constrained_accuracy: CrAdv rounds up to full batches, even if there are
        fewer samples."""
        if self.exact:
            return as_published.full_batches(
                limit, self.net.spec.batch_size, min(len(self.net.data), self.limit or len(self.net.data))
            )
        return self.samples(limit)

    def batches(self, limit: int | None) -> Iterator[Batch]:
        total = self.samples(limit)
        for batch in self.net.batches(total):
            yield batch
            self.advance(len(batch) / total)

    def attacked(self, batch: Batch, **values: Any) -> Tensor:
        """Normalised pictures after the attack; `values` replace some of its parameters."""
        if self.attack is None:
            return batch.x
        attack = self.attack.varied(**values) if values else self.attack
        return adversarial(attack, self.attacked_model, self.space, batch, SEED, self.crafted, self.exact)

    def answers(self, x: Tensor, batch: Batch, purpose: str) -> Tensor:
        with torch.no_grad(), evaluating(self.victim):
            logits = self.victim(x, None, seeds.generators(SEED, batch.ids, purpose))
        assert isinstance(logits, Tensor)
        return logits


def accuracy(run: Run, params: schema.Accuracy) -> dict[str, Any]:
    total, correct, clean_correct, fooled_count, top = 0, 0, 0, 0, 0
    sums = dict.fromkeys(
        [
            "confidence",
            "clean_2",
            "clean_inf",
            "fooled_confidence",
            "0",
            "2",
            "inf",
            "relative_2",
            "relative_inf",
        ],
        0.0,
    )
    pixels = 0
    for batch in run.batches(params.limit_samples):
        assert isinstance(batch.y, Tensor)
        x_adv = run.attacked(batch)
        if params.round and run.attack is not None:
            x_adv = run.space.normalise((run.space.pixels(x_adv) * 255).round() / 255)
        logits = run.answers(x_adv, batch, "judge")
        right, confidence = logits.argmax(1) == batch.y, logits.softmax(1).amax(1)
        total, correct, pixels = total + len(batch), correct + int(right.sum()), batch.x[0].numel()
        sums["confidence"] += float(confidence[right].sum())
        top += _among_top(logits, batch.y, params.top_k)
        if run.attack is None:
            continue
        clean_right = run.answers(batch.x, batch, "clean").argmax(1) == batch.y
        fooled = (clean_right & ~right).nonzero().squeeze(1)
        fooled, before = (
            as_published.miscounted(clean_right, right) if run.exact else (fooled, int(clean_right.sum()))
        )
        clean_correct, fooled_count = clean_correct + before, fooled_count + len(fooled)
        sums["fooled_confidence"] += float(confidence[fooled].sum())
        clean, change = (
            run.space.pixels(batch.x).flatten(1),
            (run.space.pixels(x_adv) - run.space.pixels(batch.x)).flatten(1),
        )
        for name, p in (("2", 2.0), ("inf", torch.inf)):
            size, sizes = clean.norm(p, dim=1), change.norm(p, dim=1)
            sums[f"clean_{name}"] += float(size.sum())
            sums[name] += float(sizes[fooled].sum())
            # a black picture has norm 0
            sums[f"relative_{name}"] += float(torch.where(size > 0, sizes / size, 0)[fooled].sum())
        sums["0"] += float((change != 0).sum(1)[fooled].sum())
    result: dict[str, Any] = {
        "total": total,
        "correct": correct,
        "adversarial": fooled_count,
        "accuracy": correct / total,
        "avg_confidence": {"correct": sums["confidence"] / correct if correct else "-"},
    }
    if params.top_k is not None:
        result[f"top_{params.top_k}_accuracy"] = top / total
    if run.attack is not None:
        n = max(fooled_count, 1)
        result["clean_correct"] = {
            "total": clean_correct,
            "adversarial": fooled_count,
            "accuracy": (clean_correct - fooled_count) / clean_correct if clean_correct else 1,
        }
        result["avg_confidence"]["adversarial"] = (
            sums["fooled_confidence"] / fooled_count if fooled_count else "-"
        )
        result["clean_avg_norm"] = {
            "0": pixels,
            "2": sums["clean_2"] / total,
            "inf": sums["clean_inf"] / total,
        }
        result["adv_avg_norm"] = {key: sums[key] / n for key in ("0", "2", "inf")}
        result["adv_dissimilarity"] = {key: sums[f"relative_{key}"] / n for key in ("2", "inf")}
    return result


def _among_top(logits: Tensor, y: Tensor, k: int | None) -> int:
    if k is None:
        return 0
    if k > logits.shape[1]:
        raise UserError(f"top_k is {k}, but the net has only {logits.shape[1]} classes.")
    return int((logits.topk(k, dim=1).indices == y[:, None]).any(1).sum())


def constraint_values(params: schema.ConstrainedAccuracy, exact: bool = False) -> dict[str, float]:
    """Key in the result -> value. Keys are CrAdv's ("0", "0.25", "1.0"), without the rounding errors of its
    additions unless `exact`."""
    if exact:
        return dict(as_published.constraint_values(params))
    low, step, high = (
        Decimal(str(v)) for v in (params.constraint_min, params.contraint_step, params.constraint_max)
    )
    integers = isinstance(params.constraint_min, int) and isinstance(params.contraint_step, int)
    values: dict[str, float] = {}
    for k in range(int((high - low) / step) + 1):
        value = low + k * step
        values[
            str(params.constraint_min) if k == 0 else str(int(value)) if integers else str(float(value))
        ] = float(value)
    return values


def constrained(run: Run, params: schema.ConstrainedAccuracy) -> dict[str, dict[str, Any]]:
    """Value of the constraint -> {correct, adv_dissimilarity, accuracy in per cent, ...}."""
    assert run.attack is not None
    values, key = (
        constraint_values(params, run.exact),
        "dissimilarity" if params.dissimilarity else "max_2_norm",
    )
    again = key in type(run.attack.params).model_fields
    both = again and run.attack.name != "mi_fgsm" and not run.exact
    other = {"max_2_norm" if params.dissimilarity else "dissimilarity": None} if both else {}
    zero: dict[str, Any] = {"correct": 0, "adv_dissimilarity": 0.0} | (
        {"correct_topk": 0} if params.top_k else {}
    )
    info = {v: dict(zero) for v in values}
    total = 0
    for batch in run.batches(params.limit_samples):
        assert isinstance(batch.y, Tensor)
        clean = run.space.pixels(batch.x)
        norms = clean.flatten(1).norm(dim=1)
        once = None if again else run.attacked(batch)
        for name, value in values.items():
            scaled = batch.x
            if value > 0:
                x_adv = run.attacked(batch, **{key: value}, **other) if once is None else once
                wanted = norms * value if params.dissimilarity else torch.full_like(norms, value)
                scaled = run.space.normalise(
                    rescaled(clean, run.space.pixels(x_adv), wanted, cut=not run.exact)
                )
            logits = run.answers(scaled, batch, "judge")
            info[name]["correct"] += int((logits.argmax(1) == batch.y).sum())
            sizes = (run.space.pixels(scaled) - clean).flatten(1).norm(dim=1)
            info[name]["adv_dissimilarity"] += float((sizes / norms)[norms > 0].sum())
            if params.top_k:
                info[name]["correct_topk"] += _among_top(logits, batch.y, params.top_k)
        total += len(batch)
    for one in info.values():
        one["accuracy"] = 100.0 * one["correct"] / total
        one["adv_dissimilarity"] /= total
        if params.top_k:
            one["topk_accuracy"] = 100.0 * one["correct_topk"] / total
    return info


def rescaled(clean: Tensor, adversarial: Tensor, norms: Tensor, cut: bool) -> Tensor:
    """The change scaled to the given Euclidean norms and clipped to [0, 1]; pictures without a change are
    returned unchanged."""
    change = (adversarial - clean).flatten(1)
    now = change.norm(dim=1)
    factor = torch.where(now > 0, norms / torch.where(now > 0, now, 1), 1)
    scaled = clean + (change * factor[:, None]).view_as(clean)
    return scaled.clamp(0, 1) if cut else scaled
