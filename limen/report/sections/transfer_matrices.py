"""Attacks computed on one net and evaluated on others, one matrix per measure: tables 6.1 and 6.3 of Olivier
2023."""

from collections.abc import Sequence

from markupsafe import Markup

from limen.report.blocks import Block, Cell, Group, Heading, Panels, Prose, Row, Section, Table
from limen.report.formatting import fmt
from limen.report.parts import Part
from limen.report.run import CellResult, number
from limen.report.transfer_names import attack_name, proxy_name

MEASURES = {
    "tasr_word": (
        "Targeted success, by words",
        "1 − word error rate to the target, at least 0, mean over samples (equation 6.1): 100 is exactly the "
        "target.",
    ),
    "tasr_char": (
        "Targeted success, by characters",
        "1 − character error rate to the target, at least 0, mean over samples. Unrelated sentences reach 15 "
        "to 20.",
    ),
    "uasr_word": (
        "Untargeted success, by words",
        "Word error rate against the reference, at most 1, mean over samples (equation 6.2): 100 means that "
        "no word is right.",
    ),
    "uasr_char": (
        "Untargeted success, by characters",
        "Character error rate against the reference, at most 1, mean over samples.",
    ),
    "success": (
        "Success",
        "Share of samples at the goal of the attack, of those that were not there before for the attacked "
        "model; judged as stored.",
    ),
    "wer": ("Word error rate", "All errors over all words, against the reference."),
}
NOTE = Markup(
    "Rows: the model that is attacked. Columns: the proxy on which the attack was computed. In&#8239;%; a "
    "stronger "
    'shade is a stronger attack. <i class="same">Outlined in italics</i>: the attack was computed on this '
    "very "
    "model, so nothing was transferred."
)
DARK = 0.6
"""Shares above this are written in the colour of the background."""


def transfer_matrices(part: Part) -> Section | None:
    cells = [c for c in part.cells if c.victims]
    panels: list[tuple[str, Block]] = []
    for attack in dict.fromkeys(attack_name(c) for c in cells):
        panels += _matrices(attack, _proxies([c for c in cells if attack_name(c) == attack]))
    return Section("Transfer of attacks", [Prose(NOTE), Panels(panels)], order=100) if panels else None


def _proxies(cells: Sequence[CellResult]) -> dict[str, CellResult]:
    proxies: dict[str, CellResult] = {}
    for cell in cells:
        name = proxy_name(cell)
        proxies[f"{name} ({cell.net})" if name in proxies else name] = cell
    return proxies


def _matrices(attack: str, proxies: dict[str, CellResult]) -> list[tuple[str, Block]]:
    """One matrix per measure that any cell holds."""
    victims = list(dict.fromkeys(v for c in proxies.values() for v in c.victims))
    # nets that are proxies too come first and in the same order, so that the diagonal holds the same nets
    victims.sort(key=lambda v: list(proxies).index(v) if v in proxies else len(proxies))
    counts = {number(r.get("n")) for c in proxies.values() for r in c.victims.values()} - {None}
    n = f" n = {fmt(counts.pop(), 'n')} samples." if len(counts) == 1 else ""
    found: list[tuple[str, Block]] = []
    for measure, (name, caption) in MEASURES.items():
        values = {v: [number(c.victims.get(v, {}).get(measure)) for c in proxies.values()] for v in victims}
        if all(value is None for row in values.values() for value in row):
            continue
        rows = [
            Row([v, *(_cell(p, v, value) for p, value in zip(proxies, values[v], strict=True))])
            for v in victims
        ]
        headings = [Heading("attacked ↓ · proxy →", number=False), *(Heading(p) for p in proxies)]
        title = f"{name}: {attack}"
        found.append((title, Table("", headings, [Group(rows)], caption + n, label=title, style="heat")))
    return found


def _cell(proxy: str, victim: str, value: float | None) -> Cell:
    if value is None:
        return Cell(Markup('<span aria-label="not tried">–</span>'), style="none")
    share = min(max(value, 0.0), 1.0)
    # several proxies are called "a + b"
    same = victim in proxy.split(" + ")
    hint = f"attack computed on {proxy}, evaluated on {victim}: {fmt(value, '%')}"
    style = " ".join(word for word, applies in (("same", same), ("dark", share > DARK)) if applies)
    return Cell(
        fmt(100 * value, "1f"), style=style, hint=hint + " (the same model)" * same, share=round(share, 3)
    )
