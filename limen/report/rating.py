"""How badly a model does in a cell, and which cell is its worst."""

from collections.abc import Sequence

from limen.report.run import CellResult


def harm(cell: CellResult) -> float | None:
    """Error rate of a classifier, word error rate of a recogniser; None for curves and transfer matrices,
    which have no single number."""
    if cell.curve or cell.victims:
        return None
    value = cell.value(cell.rated_by)
    return value if value is None or cell.rated_by == "wer" else 1 - value


def worst(cells: Sequence[CellResult]) -> CellResult | None:
    """The cell in which the model does worst.

    The noise control does not count. Attacks without a budget always succeed, so they count only if all
    attacks are without one.
    """
    attacked = [c for c in cells if c.attack != "none" and not c.control and harm(c) is not None]
    bounded = [c for c in attacked if limited(c)]
    return max(bounded or attacked, key=lambda c: harm(c) or 0.0, default=None)


def worst_ids(cells: Sequence[CellResult]) -> set[str]:
    """Ids of the cells in which each model, behind each defence, does worst; several if they are equal."""
    ids: set[str] = set()
    for key in dict.fromkeys((c.net, c.defense) for c in cells):
        group = [c for c in cells if (c.net, c.defense) == key]
        top = worst(group)
        if top is not None:
            equal = [c for c in group if harm(c) == harm(top) and limited(c) == limited(top)]
            ids |= {c.id for c in equal if not c.control}
    return ids


def limited(cell: CellResult) -> bool:
    """The attack could not change a sample as much as it liked."""
    return bool(cell.limit) or cell.universal
