"""The parts of a page: sections, and the kinds of blocks in them.

A section returns data only. Every block class names the macro of templates/blocks.html.j2 that draws it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from markupsafe import Markup

NO_MARKUP = Markup()


class Block:
    """A piece of a page. `macro` is the name of the macro that draws it."""

    macro: ClassVar[str]


@dataclass(frozen=True)
class Section:
    """Blocks under one heading, and their place on the page.

    Sections of the run get a heading of level 2 and an entry in the contents; those of a part of the
    run are set inside that part, in order. Without a title there is neither heading nor entry.
    """

    title: str = ""
    blocks: Sequence[Block] = ()
    order: float = 500
    """Sections are sorted by this number. The parts of a run are at 100."""
    anchor: str = ""
    """Target of links; the name of the component if left empty."""
    in_header: bool = False
    """True to be shown above the contents, without a heading."""


@dataclass(frozen=True)
class Prose(Block):
    """A paragraph."""

    macro: ClassVar[str] = "prose"
    text: str | Markup
    style: str = "note"
    """Class in page.css: "note", "lede", "muted under", ..."""


@dataclass(frozen=True)
class Subheading(Block):
    macro: ClassVar[str] = "subheading"
    text: str


@dataclass(frozen=True)
class Html(Block):
    """Ready-made HTML. Use Markup.format to escape inserted text."""

    macro: ClassVar[str] = "html"
    markup: Markup


@dataclass(frozen=True)
class Code(Block):
    """Text in a fixed-width font that keeps its line breaks."""

    macro: ClassVar[str] = "code"
    text: str


@dataclass(frozen=True)
class Definitions(Block):
    """Terms with what they mean, or facts with their values."""

    macro: ClassVar[str] = "definitions"
    pairs: Sequence[tuple[str, str | Markup]]
    style: str = "facts"


@dataclass(frozen=True)
class Folded(Block):
    """Blocks that are shown after a click on their summary."""

    macro: ClassVar[str] = "folded"
    summary: str | Markup
    blocks: Sequence[Block]
    note: str = ""
    open: bool = False
    style: str = ""


@dataclass(frozen=True)
class Figure(Block):
    """Charts that share a legend and a caption, one per panel."""

    macro: ClassVar[str] = "figure"
    title: str
    caption: str
    panels: list[tuple[str, Markup]]
    """Heading of each panel, and the chart."""
    key: Markup = NO_MARKUP
    wide: bool = False
    folded: bool = False


@dataclass(frozen=True)
class Heading:
    """The heading of a column of a table."""

    text: str
    meaning: str = ""
    """Shown when the pointer rests on the heading."""
    small: str = ""
    """A second line."""
    number: bool = True
    """True to align the column to the right."""


@dataclass(frozen=True)
class Cell:
    text: str | Markup
    small: str = ""
    """A second line."""
    style: str = ""
    hint: str = ""
    """Shown when the pointer rests on the cell."""
    sort: float | str | None = None
    """Sorted by this instead of by the text."""
    share: float | None = None
    """Strength of the shade of a heat map, 0 to 1."""


@dataclass(frozen=True)
class Row:
    cells: Sequence[Cell | str | Markup]
    style: str = ""


@dataclass(frozen=True)
class Group:
    """Rows of a table under a heading of their own."""

    rows: Sequence[Row]
    title: str = ""


@dataclass(frozen=True)
class Table(Block):
    """Rows under headings. The column `heading_column` holds the headings of the rows."""

    macro: ClassVar[str] = "table"
    title: str
    headings: Sequence[Heading]
    groups: Sequence[Group]
    caption: str | Markup = ""
    label: str = ""
    """What a screen reader calls the table; the title if left empty."""
    style: str = ""
    """Classes in page.css: "dense", "text", "plain", "heat", ..."""
    sortable: bool = False
    heading_column: int = 0


def plain_table(
    title: str,
    headings: Sequence[tuple[str, str]],
    rows: Sequence[Sequence[str | Markup]],
    caption: str = "",
    names: int = 1,
) -> Table:
    """A sortable table of texts. Headings are (heading, meaning); the first `names` columns hold words, the
    others numbers."""
    columns = [Heading(text, meaning, number=k >= names) for k, (text, meaning) in enumerate(headings)]
    return Table(title, columns, [Group([Row(row) for row in rows])], caption, style="plain", sortable=True)


@dataclass(frozen=True)
class Panels(Block):
    """Blocks side by side."""

    macro: ClassVar[str] = "panels"
    panels: Sequence[tuple[str, Block]]
    """Heading of each panel, and the block."""


@dataclass(frozen=True)
class Tile:
    """One headline number: before and after."""

    heading: str
    before: str
    after: str = ""
    lines: Sequence[str | Markup] = ()


@dataclass(frozen=True)
class Tiles(Block):
    macro: ClassVar[str] = "tiles"
    tiles: Sequence[Tile]


@dataclass(frozen=True)
class Checks(Block):
    """Checks with their verdict: pass, flag or not run."""

    macro: ClassVar[str] = "checks"
    checks: Sequence[Any]
    """Objects with name, status, compared, raised_if, means, do and flags
    (limen.report.checks.base.Check)."""


@dataclass(frozen=True)
class Gallery(Block):
    """Examples of one cell: pictures, or clips with players."""

    macro: ClassVar[str] = "gallery"
    place: str
    examples: Sequence[dict[str, Any]]
    """As limen.report.embedded.example.show returns them."""
    total: int
    """Number of examples that the run folder holds."""
    folder: str
    clips: bool = False
    transcripts: bool = False
    already: str = "at the goal before"
    """What to call a sample that was at the goal of the attack before anything was changed."""
    open: bool = False


@dataclass(frozen=True)
class Page:
    """A page that needs no other file."""

    title: str
    """The title of the browser's window."""
    eyebrow: str | Markup
    """The line above the heading."""
    heading: str
    footer: str
    header: Sequence[Block] = ()
    """Blocks between the heading and the contents."""
    sections: Sequence[Section] = field(default_factory=list)
    style: Markup = NO_MARKUP
    """Style rules beyond those of page.css."""
