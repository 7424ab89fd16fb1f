"""CrAdv's task samples: clean, adversarial, perturbation and defended pictures as PNG, with the predictions
for each."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from limen.defenses.base.defended import Transform
from limen.experiments.cradv import schema
from limen.experiments.cradv.tasks import Run
from limen.images.files import write_picture
from limen.models.base.model import Model


def samples(run: Run, params: schema.Samples, folder: Path) -> dict[str, Any]:
    """Write the pictures into `folder`; returns the predictions, confidences and norms of each."""
    rows: list[dict[str, Any]] = []
    correct = 0
    for batch in run.batches(max(params.limit_samples, 1)):
        assert isinstance(batch.y, Tensor)
        clean, first = run.space.pixels(batch.x), len(rows)
        confidence = run.answers(batch.x, batch, "clean").softmax(1).amax(1)
        x_adv = run.attacked(batch)
        for i in range(len(batch)):
            label = run.net.classes[int(batch.y[i])]
            rows.append(
                {"index": first + i + 1, "original_label": label, "clean_confidence": _percent(confidence[i])}
            )
            if params.save_clean:
                write_picture(folder / f"{first + i + 1}_clean.png", clean[i])
        if run.attack is not None:
            logits = run.answers(x_adv, batch, "judge")
            correct += int((logits.argmax(1) == batch.y).sum())
            _adversaries(
                run,
                params,
                folder,
                rows[first:],
                logits,
                run.space.pixels(x_adv),
                run.space.pixels(x_adv) - clean,
            )
        if params.save_defended:
            for i, picture in enumerate(_defended(run.victim.model, run.space.pixels(x_adv))):
                write_picture(folder / f"{first + i + 1}_defended.png", picture)
    return {"total": len(rows), "correct": correct, "samples": rows}


def _adversaries(
    run: Run,
    params: schema.Samples,
    folder: Path,
    rows: list[dict[str, Any]],
    logits: Tensor,
    x: Tensor,
    change: Tensor,
) -> None:
    predicted, confidence = logits.argmax(1), logits.softmax(1).amax(1)
    for i, row in enumerate(rows):
        flat = change[i].flatten()
        norms = {
            "pert_norm_0": float((flat != 0).sum()),
            "pert_norm_2": float(flat.norm()),
            "pert_norm_inf": float(flat.norm(torch.inf)),
        }
        row |= {
            "adversary_label": run.net.classes[int(predicted[i])],
            "adversary_confidence": _percent(confidence[i]),
        } | norms
        if params.save_adversary:
            write_picture(folder / f"{row['index']}_adversary.png", x[i])
        if params.save_perturbation:
            largest = change[i].flatten(1).abs().amax(1)[:, None, None]
            shown = 0.5 + 0.5 * change[i] / torch.where(largest > 0, largest, 1)
            write_picture(folder / f"{row['index']}_perturbation.png", shown)


def _defended(model: Model, x: Tensor) -> list[Tensor]:
    """The pictures that the net behind the defence evaluates; none if it makes several of each
    (crops)."""
    with torch.no_grad():
        return list(model.transformed(x, None, None)) if isinstance(model, Transform) else []


def _percent(share: Tensor) -> str:
    return f"{100 * float(share):.2f}%"
