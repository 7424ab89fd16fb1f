"""Transcription: type what you hear. Word errors are counted against the item's `answer`."""

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from limen.trials.base.clips import Clips, clips
from limen.trials.base.screen import Listener, Screen, Widget


class Transcription(Clips):
    analyses: ClassVar[tuple[str, ...]] = ("transcriptions",)

    question: str = Field(default="Type what you hear.", max_length=500)
    """The question."""
    longest: int = Field(default=500, ge=1, le=20_000)
    """Maximum number of characters."""


def transcription(listener: Listener, options: Transcription) -> list[Screen]:
    screens = clips(
        "transcription",
        listener,
        options,
        [Widget("text", "type", options.question, longest=options.longest)],
    )
    # no exact right answer: spelling is normalised when the results are computed
    spoken = {item.id: item.answer for item in listener.items}
    return [
        replace(s, facts={**s.facts, "spoken": spoken[s.facts["item"]]}) if s.sounds else s for s in screens
    ]
