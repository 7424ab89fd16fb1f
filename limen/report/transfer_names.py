"""Names of attacks and proxies in a matrix of nets."""

from limen.report.formatting import variable_text
from limen.report.run import CellResult


def attack_name(cell: CellResult) -> str:
    """The attack, defence and values of a sweep, without the net it was computed on."""
    # a surrogate is part of the attack's name ("cw on lenet5"), but it is the heading of a column
    name = cell.attack.partition(" on ")[0] if cell.proxies else cell.attack
    parts = [name, "" if cell.defense == "none" else f"behind {cell.defense}", variable_text(cell.variable)]
    return ", ".join(part for part in parts if part)


def proxy_name(cell: CellResult) -> str:
    """The net, or the nets, that the attack was computed on."""
    named = cell.attack.partition(" on ")[2] if cell.proxies else ""
    return named or str(cell.result.get("proxy") or cell.net)
