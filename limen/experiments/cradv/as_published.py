"""`cradv_exact`: CrAdv's own searches and counting, including its mistakes, for numbers that can be compared
with those it published.

Facts from https://github.com/diegoirigaray/CrAdv at commit 8424744 (src/custom/attacks, src/custom/tasks).
docs/cradv.md lists what each of them changes. Searches work in normalised space; no sample depends on others
of its batch, which changes none of CrAdv's numbers.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from limen.attacks.engine.problem import Problem
from limen.budgets.families.balls import expand
from limen.experiments.cradv import schema
from limen.experiments.cradv.nets import Space


def fgsm(problem: Problem, params: schema.Fgsm, space: Space) -> Tensor:
    """Away from the predicted class until the prediction differs from the *label*: a sample that is
    misclassified before is moved by the first size, out of the wrong class. A sample that no size changes is
    moved one size further, unclipped."""
    sign, x_adv = problem.gradient(problem.x)[0].sign(), problem.x.clone()
    if params.eps is not None:
        return problem.clip(problem.x + params.eps * sign)
    assert isinstance(problem.y, Tensor)
    eps, left = params.try_eps_min, torch.arange(len(problem), device=problem.x.device)
    while eps <= params.try_eps_max and len(left):
        active = problem.rows(left)
        x_adv[left] = active.clip(active.x + eps * sign[left])
        left = left[_predicted(active, x_adv[left]) == problem.y[left]]
        eps += params.try_eps_step  # with rounding errors: 1 is not reached from 0.001 in steps of 0.001
    x_adv[left] = problem.x[left] + eps * sign[left]
    return x_adv


def mi_fgsm(problem: Problem, params: schema.MiFgsm, space: Space) -> Tensor:
    """The sign is taken before the gradient is scaled, so all steps have the same weight; `max_2_norm` is
    ignored."""
    change, velocity = torch.zeros_like(problem.x), torch.zeros_like(problem.x)
    for _ in range(params.iterations):
        sign = problem.gradient(problem.clip(problem.x + change))[0].sign()
        velocity = velocity * params.decay_factor + sign / expand(
            sign.flatten(1).abs().sum(1).clamp_min(1), sign
        )
        change = change + params.eps / params.iterations * velocity.sign()
    return problem.clip(problem.x + change)


def deepfool(problem: Problem, params: schema.DeepFool, space: Space) -> Tensor:
    """At least one step, also for misclassified samples; none if the label is not among the likeliest
    classes. The limits are applied at each step."""
    assert isinstance(problem.y, Tensor)
    logits = problem.outputs(problem.x)
    assert isinstance(logits, Tensor)
    likely = logits.topk(min(params.k_classes, logits.shape[1]), dim=1).indices
    left = (likely == problem.y[:, None]).any(1).nonzero().squeeze(1)
    x_adv = problem.x.clone()
    for _ in range(params.max_iter):
        if not len(left):
            break
        active, y = problem.rows(left), problem.y[left]
        logits, w = active.input_gradients(x_adv[left], likely[left], base=y)
        f = (logits.gather(1, likely[left]) - logits.gather(1, y[:, None])).abs()
        length = w.flatten(2).norm(dim=2).clamp_min(torch.finfo(w.dtype).tiny)
        distance = (f / length).masked_fill(likely[left] == y[:, None], torch.inf)
        rows, k = torch.arange(len(left), device=left.device), distance.argmin(1)
        step = w[rows, k] * expand((distance[rows, k] + 1e-4) / length[rows, k], x_adv)
        step = step.nan_to_num(0.0, 0.0, 0.0)  # a net with equal logits
        total = x_adv[left] - active.x + step
        x_adv[left] = active.clip(active.x + _limited(total, active.x, params, space))
        left = left[_predicted(active, x_adv[left]) == y]
    return x_adv


def _limited(total: Tensor, x: Tensor, params: schema.DeepFool, space: Space) -> Tensor:
    if not (params.max_2_norm or params.dissimilarity):
        return (1 + params.eps) * total
    pixels = space.pixels(x).flatten(1).norm(dim=1)
    limit = (
        torch.full_like(pixels, params.max_2_norm)
        if params.max_2_norm
        else pixels * (params.dissimilarity or 0)
    )
    return total * expand((limit / (total * space.std).flatten(1).norm(dim=1)).clamp_max(1), total)


SEARCHES: dict[str, Callable[[Problem, Any, Space], Tensor]] = {
    "fgsm": fgsm,
    "mi_fgsm": mi_fgsm,
    "deepfool": deepfool,
}
"""CrAdv's searches that give other numbers than Limen's."""


def _predicted(problem: Problem, x: Tensor) -> Tensor:
    logits = problem.outputs(x)
    assert isinstance(logits, Tensor)
    return logits.argmax(1)


def full_batches(limit: int | None, size: int, available: int) -> int:
    """The number of samples rounded up to full batches, as in `total` of constrained_accuracy; there may be
    fewer samples."""
    return -(-(limit or available) // size) * size


def miscounted(clean_right: Tensor, right: Tensor) -> tuple[Tensor, int]:
    """Positions of the pictures whose norms and confidence CrAdv's task accuracy adds up, and the number it
    counts as right before the attack.

    The positions are positions *among the wrong pictures*, but CrAdv uses them for the full batch. A batch
    without a wrong picture is not counted, and pictures that are right after the attack are counted as right
    before."""
    wrong = (~right).nonzero().squeeze(1)
    before = clean_right[wrong]
    return before.nonzero().squeeze(1), len(right) - int((~before).sum()) if len(wrong) else 0


def constraint_values(params: schema.ConstrainedAccuracy) -> Iterator[tuple[str, float]]:
    """Keys and values with the rounding errors of repeated addition."""
    value = params.constraint_min
    while value <= params.constraint_max:
        yield str(value), float(value)
        value += params.contraint_step
