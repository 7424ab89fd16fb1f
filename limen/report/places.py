"""Names of the panels of figures: a net, alone or behind a defence."""

from collections.abc import Sequence

from limen.report.run import CellResult


def facets(cells: Sequence[CellResult]) -> list[tuple[str, str]]:
    """Net and defence, in order, each pair once."""
    return list(dict.fromkeys((c.net, c.defense) for c in cells))


def facet_name(net: str, defense: str) -> str:
    return f"{net}, {'undefended' if defense == 'none' else defense}"
