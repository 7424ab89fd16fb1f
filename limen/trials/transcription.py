"""Type what you hear. What was really said, the item's `answer`, is kept with it for counting word errors."""

from dataclasses import replace

from pydantic import Field

from limen.trials.base.clips import Clips, clips
from limen.trials.base.screen import Listener, Screen, Widget


class Transcription(Clips):
    question: str = Field(default="Type what you hear.", max_length=500)
    """What is asked."""
    longest: int = Field(default=500, ge=1, le=20_000)
    """Most characters."""


def transcription(listener: Listener, options: Transcription) -> list[Screen]:
    screens = clips(
        "transcription",
        listener,
        options,
        [Widget("text", "type", options.question, longest=options.longest)],
    )
    # no right answer to the letter: spelling is compared when the results are counted
    said = {item.id: item.answer for item in listener.items}
    return [replace(s, facts={**s.facts, "said": said[s.facts["item"]]}) if s.sounds else s for s in screens]
