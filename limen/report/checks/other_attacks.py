"""Attacks that should not do better than those along the model's own gradients: searches without gradients,
attacks computed on another net, and the plain search of the audit."""

import itertools

from limen.report.checks.base import Evidence, allowed, beats, groups, same_problem, success
from limen.report.formatting import fmt, listed, place
from limen.report.run import CellResult, number
from limen.report.transfer_names import attack_name, proxy_name


def guessing(cells: list[CellResult]) -> Evidence:
    """Attacks without a gradient of the net, compared with the best of those that took one."""
    compared, flags = 0, []
    for group in groups(
        c for c in cells if not (c.control or c.universal) and allowed(c) and success(c) is not None
    ):
        blind = [c for c in group if c.queries or c.proxies]
        rates = {c.id: success(c) or 0.0 for c in group}
        seeing = [c for c in group if c not in blind and c.value("backward_calls")]
        best = max(seeing, key=lambda c: rates[c.id], default=None)
        for cell in blind if best else []:
            assert best is not None
            a, b = rates[cell.id], rates[best.id]
            compared += 1
            if beats(a, b, cell.n):
                how = "computed on another net" if cell.proxies else "without gradients"
                flags.append(
                    f"{place(best)}: {cell.attack} ({how}) succeeds on {fmt(a, '%')}, {best.attack} only on "
                    f"{fmt(b, '%')}."
                )
    return compared, flags


def transfers(cells: list[CellResult]) -> Evidence:
    """In a matrix of nets: an attack computed on another net, compared with the one computed on the net
    itself."""
    compared, flags = 0, []
    for cell, own in itertools.permutations(cells, 2):
        proxy, victim = proxy_name(cell), proxy_name(own)
        same = (attack_name(cell), *same_problem(cell)[4:]) == (attack_name(own), *same_problem(own)[4:])
        a, b, n = (
            number(c.victims.get(victim, {}).get(key))
            for c, key in ((cell, "success"), (own, "success"), (own, "n"))
        )
        if not same or victim in proxy.split(" + ") or a is None or b is None:
            continue
        compared += 1
        if beats(a, b, int(n or 0)):
            flags.append(
                f"{victim}: {attack_name(own)} computed on {proxy} succeeds on {fmt(a, '%')}, computed on "
                f"itself on {fmt(b, '%')}."
            )
    return compared, flags


def keeps_up(cells: list[CellResult]) -> Evidence:
    """All attacks of the run together, compared with the plain search of the audit, on the samples of
    both."""
    compared, flags = 0, []
    for audit in (c for c in cells if c.diagnostic):
        attacks = [c for c in cells if same_problem(c) == same_problem(audit) and _compares(c)]
        if not attacks:
            continue
        plain = dict(zip(audit.rows.get("id", []), audit.rows.get("many_steps", []), strict=False))
        before = dict(zip(audit.rows.get("id", []), audit.rows.get("clean", []), strict=False))
        successes = [dict(zip(c.rows["id"], c.rows["success"], strict=True)) for c in attacks]
        shared = [i for i in plain if not before.get(i) and all(i in those for those in successes)]
        if not shared:
            continue
        compared += 1
        a, b = (
            sum(bool(plain[i]) for i in shared) / len(shared),
            sum(any(those[i] for those in successes) for i in shared) / len(shared),
        )
        if beats(a, b, len(shared)):
            names, steps = listed(list(dict.fromkeys(c.attack for c in attacks))), audit.result["steps"][-1]
            flags.append(
                f"{place(audit)}: {steps} plain steps succeed on {fmt(a, '%')} of {len(shared)} samples, "
                f"{names} only on {fmt(b, '%')}."
            )
    return compared, flags


def _compares(cell: CellResult) -> bool:
    """An attack on this very model and sample. One that must survive random transforms or serve all samples
    may well do less."""
    other = cell.control or cell.universal or cell.proxies or cell.curve or cell.attack_spec.get("through")
    return not cell.diagnostic and not other and "success" in cell.rows
