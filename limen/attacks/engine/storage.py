r"""Storage of adversarial samples: on the grid of the file format, and inside the budget as stored.

    s_i = round(x'_i)                       the nearest point of the grid (steps of 1/32768 in clips,
        of 1/255 in pictures)
    s_i = s_i - step * sign(s_i - x_i)
        for as few i as bring ||s - x|| to the radius or below it, if rounding led outside of it

Values that exceed the radius on their own are moved first (under linf nothing else is needed), then those
whose nearest point is furthest out: for them both grid points are about equally near, so the point of the
search changes least. Norms are compared in double precision with the exact values of the files. A sample
never depends on the other samples or on its padding.

A clean sample need not be on the grid (MP3, resampled clips, resized pictures). Values that the search left
unchanged are then stored as in the file of the clean sample, and this rounding counts as a change, too. If it
alone exceeds the budget (always, under l0), the budget is kept between the two files instead:
||s - round(x)||.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from limen.audio import codecs
from limen.budgets.families.budget import Budget
from limen.images import files

Store = Literal["float", "int16", "uint8"]
LEVELS = {"int16": 32768, "uint8": 255}
GRIDS = {"int16": codecs.quantise, "uint8": files.quantise}
SLACK = 1e-12
"""Relative tolerance of a norm in double precision: 8/255 must hold eight steps of 1/255."""


def quantise(x: Tensor, store: Store) -> Tensor:
    """The nearest point on the grid of the file format: 16-bit audio or 8-bit pictures."""
    return GRIDS[store](x) if store != "float" else x


def stored(
    x_adv: Tensor, clean: Tensor, store: Store, budget_around: Callable[[Tensor], Budget | None]
) -> Tensor:
    """x_adv on the grid and inside the budget around the clean samples; without one, the nearest point."""
    rounded = quantise(x_adv, store)
    if store == "float":
        return rounded
    x = _exact(clean, store)
    budget = budget_around(x)
    if budget is None:
        return rounded
    outside = _outside(budget, quantise(rounded.double(), store) - x).nonzero().squeeze(1)
    as_files = quantise(x[outside], store)
    # rounding the clean sample alone exceeds the budget
    alone = _outside(budget.rows(outside), as_files - x[outside])
    between = (budget_around(quantise(x, store)) if bool(alone.any()) else None) or budget
    for i, file, files_only in zip(outside.tolist(), as_files, alone.tolist(), strict=True):
        row, index = slice(i, i + 1), torch.tensor([i], device=x.device)
        own, base = (between.rows(index), file[None]) if files_only else (budget.rows(index), x[row])
        way = own.project(torch.where(x_adv[row] == clean[row], 0.0, x_adv[row].double() - base))
        rounded[row] = _taken_back(base, way, file[None], store, own).to(rounded)
    return rounded


def _exact(x: Tensor, store: Store) -> Tensor:
    """In double precision; a value of a picture that a byte holds is that byte's 1/255, not the float next to
    it."""
    return (
        torch.where(quantise(x, store) == x, quantise(x.double(), store), x.double())
        if store == "uint8"
        else x.double()
    )


def _taken_back(base: Tensor, way: Tensor, file: Tensor, store: Store, budget: Budget) -> Tensor:
    """(1, ...) the grid's nearest point to base + way, as few values as possible taken back towards the clean
    file until it is inside."""
    point = quantise(base + way, store)
    while bool(_outside(budget, point - base)):
        movable = point != file
        short = quantise(point - (point - file).sign() / LEVELS[store], store)
        size = (point - base).abs()
        first = size - way.abs() + budget.beyond(point - base, SLACK).to(size)
        order = torch.where(movable, first, -torch.inf).flatten().argsort(descending=True, stable=True)
        rank = (
            torch.empty_like(order)
            .scatter_(0, order, torch.arange(len(order), device=order.device))
            .view_as(base)
        )
        low, high = 1, int(movable.sum())
        while low < high:
            middle = (low + high) // 2
            if bool(_outside(budget, torch.where(rank < middle, short, point) - base)):
                low = middle + 1
            else:
                high = middle
        point = torch.where(rank < high, short, point)
    return point


def _outside(budget: Budget, change: Tensor) -> Tensor:
    return budget.norm(change) > budget.radius.double() * (1 + SLACK)
