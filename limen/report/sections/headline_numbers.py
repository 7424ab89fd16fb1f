"""Per net, its rate without an attack, at worst, and at worst behind its best defence."""

from markupsafe import Markup

from limen.report.blocks import Html, Section, Tile, Tiles
from limen.report.headline import Behind, Headline, headlines
from limen.report.run import Run

TITLE = Markup('<h2 class="visually-hidden">Headline numbers</h2>')


def headline_numbers(run: Run) -> Section | None:
    tiles = [Tile(h.net, h.before, h.worst, _lines(h)) for h in headlines(run.done)]
    return Section(blocks=[Html(TITLE), Tiles(tiles)], order=30) if tiles else None


def _lines(headline: Headline) -> list[str | Markup]:
    if not headline.worst:
        return [f"{headline.what}, clean"]
    size = f", {headline.size}" if headline.size else ""
    behind = f", behind {headline.defense}" if headline.defense else ""
    strongest = f"{headline.what}, clean and under its strongest attack, {headline.attack}{size}{behind}"
    known = f"95\u202f% interval {headline.interval}, " if headline.interval else ""
    muted = Markup(' <span class="muted">({})</span>')
    lines: list[str | Markup] = [
        Markup.escape(strongest) + muted.format(f"{known}n\u202f=\u202f{headline.n}")
    ]
    if headline.union:
        beyond = muted.format(headline.union_interval) if headline.union_interval else ""
        line = Markup("All attacks within this budget together (worst of {}): <b>{}</b>{}.")
        lines.append(line.format(headline.union_of, headline.union, beyond))
    if headline.behind is not None:
        lines.append(_best_defence(headline.behind))
    return lines


def _best_defence(behind: Behind) -> Markup:
    start = (
        "Best defence: {}, <b>{}</b> at worst"
        if behind.helps
        else "No defence helps. The best, {}, leaves <b>{}</b>"
    )
    attack = behind.attack + (", which did not know the defence" if behind.unseen else "")
    return Markup(start).format(behind.defense, behind.rate) + f" ({attack})."
