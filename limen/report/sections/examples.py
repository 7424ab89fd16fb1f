"""Examples of each attacked cell: images to look at, clips to listen to."""

from markupsafe import Markup

from limen.report.blocks import Block, Gallery, Prose, Section
from limen.report.embedded.example import show
from limen.report.formatting import place
from limen.report.parts import Part
from limen.report.rating import worst_ids

CLIPS = Markup(
    "Clean, perturbation and adversarial clip as stored. All three run together, so the <kbd>←</kbd> and "
    "<kbd>→</kbd> keys switch between clean and adversarial without a gap; <kbd>space</kbd> plays and stops. "
    "Spectrograms of one example share one scale of 80&#8239;dB; the button × makes the perturbation alone "
    "as loud "
    'as the clip. <label class="repeat"><input type="checkbox" class="loop"> Repeat</label>'
)
IMAGES = "The perturbation is shown around mid-grey, multiplied by the factor below it."


def examples(part: Part) -> Section | None:
    cells = [c for c in part.cells if part.chosen.get(c.id)]
    if not cells:
        return None
    worst = worst_ids(cells)
    galleries: list[Block] = [
        Gallery(
            place(c),
            [show(c, example) for example in part.chosen[c.id]],
            total=len(c.examples),
            folder=f"cells/{c.id}/examples",
            clips=c.kind == "clip",
            transcripts=c.output == "transcript",
            already="wrong before" if c.goal["name"] == "untargeted" else "at the goal before",
            open=len(cells) == 1 or (c.id in worst and c.defense == "none"),
        )
        for c in cells
    ]
    note = Prose(CLIPS if part.clips else IMAGES)
    return Section("Listen" if part.clips else "Examples", [note, *galleries], order=200)
