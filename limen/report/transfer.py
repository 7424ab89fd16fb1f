"""Attacks computed on one net and tried on others: a matrix of nets for each measure, tables 6.1 and 6.3 of
Olivier 2023."""

from collections.abc import Sequence
from dataclasses import dataclass

from limen.report.formatting import fmt, variable_text
from limen.report.run import CellResult, number

MEASURES = {
    "tasr_word": "Targeted success, by words",
    "tasr_char": "Targeted success, by characters",
    "uasr_word": "Untargeted success, by words",
    "uasr_char": "Untargeted success, by characters",
    "success": "Success",
    "wer": "Word error rate",
}
MEANS = {
    "tasr_word": "1 − word error rate to the target, at least 0, mean over samples (equation 6.1): 100 is "
    "exactly the target.",
    "tasr_char": "1 − character error rate to the target, at least 0, mean over samples. Unrelated "
    "sentences reach 15 to 20.",
    "uasr_word": "Word error rate to the truth, at most 1, mean over samples (equation 6.2): 100 is nothing "
    "left of what was said.",
    "uasr_char": "Character error rate to the truth, at most 1, mean over samples.",
    "success": "Share of samples at the goal now, of those that were not there before for the attacked "
    "model; judged as stored.",
    "wer": "All errors over all words, against the truth.",
}
DARK = 0.6
"""Shares above this are written in the colour of the paper."""


@dataclass(frozen=True)
class HeatCell:
    text: str
    share: float
    dark: bool
    same: bool
    """The attacker saw this very net: not a transfer."""
    words: str


@dataclass(frozen=True)
class HeatMap:
    """Rows: the net that is attacked; columns: the proxy the attack was computed on."""

    title: str
    caption: str
    columns: list[str]
    rows: list[tuple[str, list[HeatCell | None]]]


def heat_maps(cells: Sequence[CellResult]) -> list[HeatMap]:
    """One map per attack and measure that any cell holds."""
    out = []
    transfers = [c for c in cells if c.victims]
    for who in dict.fromkeys(attack_name(c) for c in transfers):
        proxies: dict[str, CellResult] = {}
        for cell in (c for c in transfers if attack_name(c) == who):
            name = proxy_name(cell)
            proxies[f"{name} ({cell.net})" if name in proxies else name] = cell
        victims = list(dict.fromkeys(v for c in proxies.values() for v in c.victims))
        # nets that are proxies too come first and in the same order, so that the same net stands on the
        # diagonal
        victims.sort(key=lambda v: list(proxies).index(v) if v in proxies else len(proxies))
        for measure, words in MEASURES.items():
            rows = [
                (v, [_cell(p, v, number(c.victims.get(v, {}).get(measure))) for p, c in proxies.items()])
                for v in victims
            ]
            if any(cell for _, row in rows for cell in row):
                counts = {number(r.get("n")) for c in proxies.values() for r in c.victims.values()} - {None}
                n = f" n = {fmt(counts.pop(), 'n')} samples." if len(counts) == 1 else ""
                out.append(HeatMap(f"{words}: {who}", MEANS[measure] + n, list(proxies), rows))
    return out


def attack_name(cell: CellResult) -> str:
    # a surrogate is part of the attack's name ("cw on lenet5"), but stands at the head of its column
    name = cell.attack.partition(" on ")[0] if cell.proxies else cell.attack
    parts = [name, "" if cell.defense == "none" else f"behind {cell.defense}", variable_text(cell.variable)]
    return ", ".join(part for part in parts if part)


def proxy_name(cell: CellResult) -> str:
    named = cell.attack.partition(" on ")[2] if cell.proxies else ""
    return named or str(cell.result.get("proxy") or cell.net)


def _cell(proxy: str, victim: str, value: float | None) -> HeatCell | None:
    if value is None:
        return None
    share = min(max(value, 0.0), 1.0)
    # several proxies are called "a + b"
    same = victim in proxy.split(" + ")
    words = f"attack computed on {proxy}, tried on {victim}: {fmt(value, '%')}" + (
        " (the same model)" if same else ""
    )
    return HeatCell(fmt(100 * value, "1f"), round(share, 3), share > DARK, same, words)
