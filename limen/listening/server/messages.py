"""What goes over the wire between a listener's page and the server."""

import json
from typing import Annotated, Any, Literal

from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Short = Annotated[str, StringConstraints(max_length=200)]


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


class Begin(Message):
    parameters: Annotated[
        dict[Short, Annotated[str, StringConstraints(max_length=1000)]], Field(max_length=100)
    ] = {}
    """Query parameters of the page's address; those that the study names as recruitment parameters are
    kept."""


class Playback(Message):
    """Proof that a sound was played."""

    label: Short
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """sha256 of the samples as decoded."""
    rate_hz: float = Field(default=0, ge=0, le=1e6)
    """Rate of the device."""
    plays: int = Field(default=0, ge=0, le=1_000_000)
    """How often it was started, and gone round again in a loop."""
    switches: int = Field(default=0, ge=0, le=1_000_000)
    """How often it was switched to while another one played."""
    played_s: float = Field(default=0, ge=0, le=1e6)
    """Seconds of it that were heard."""


class Answer(Message):
    screen: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """The id that came with the screen."""
    attempt: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
    """Made up by the page for this answer; the same when it is sent again."""
    answer: dict[str, Any]
    """By name of the widget."""
    playback: Annotated[list[Playback], Field(max_length=64)] = []
    response_ms: float | None = Field(default=None, ge=0, le=1e9)


class Event(Message):
    kind: Literal["hidden", "visible", "sound.silent", "sound.broken"]
    """The page was hidden, or shown again; a sound did not play, or could not be loaded."""
    screen: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """The id that came with the screen on which it happened."""


class Named(Message):
    title: str
    contact: str


class Problem(Message):
    error: str
    """What is wrong, in a sentence."""
    study: Named | None = None
    """What the study is called: whoever is not known yet is greeted by it."""


class SoundAddress(Message):
    label: str
    rated: bool
    """GoalContext about by widgets that want an answer for each sound."""
    url: str


class ChoiceShown(Message):
    value: str
    label: str


class WidgetShown(Message):
    name: str
    kind: Literal["choose", "slide", "type"]
    question: str
    choices: list[ChoiceShown]
    low: float
    high: float
    step: float
    anchors: list[str]
    each_sound: bool
    required: bool
    longest: int
    other: str


class ScreenShown(Message):
    id: str
    kind: str
    role: Literal["page", "check", "teaching", "trial"]
    title: str
    text: str
    sounds: list[SoundAddress]
    widgets: list[WidgetShown]
    plays: int | None
    switch: bool
    hear_all: bool
    decline: str


class AtScreen(Message):
    study: Named
    position: int
    total: int
    done: Literal[False]
    screen: ScreenShown
    resume: str
    """Address that goes on here on another device."""


class AtEnd(Message):
    study: Named
    position: int
    total: int
    done: Literal[True]
    code: str
    """Completion code."""
    redirect: str | None


class Preview(Message):
    """The first pages, for a visitor whom the recruitment site shows the study before they take part."""

    study: Named
    preview: Literal[True]
    screens: list[ScreenShown]


State = Annotated[AtScreen | AtEnd, Field(discriminator="done")]


class Feedback(Message):
    correct: bool
    truth_text: str


class Stored(Message):
    """The answer is on the disk."""

    stored: Literal[True]
    again: bool
    """There already was an answer to this screen: nothing was stored."""
    feedback: Feedback | None
    state: State


class Declined(Message):
    """Nothing of this listener is stored any more."""

    declined: Literal[True]


class Noted(Message):
    stored: bool
    """False before consent, after the last answer, and once a listener has as many events as are kept."""


class GroupProgress(Message):
    finished: int
    active: int
    """At it, with a place."""
    dropped: int
    """With a place, and idle for long: another may take it."""
    begun: int
    """Just begun, and without a place as long as they have heard nothing."""
    left: int
    """Gone before they had a place."""


class Progress(GroupProgress):
    name: str
    wanted: int
    declined: int
    """Who did not agree to take part; nothing else is known of them."""
    groups: dict[str, GroupProgress]
    answers: int
    last_answer_at: float | None
    closed: bool
    trouble: str
    """What keeps answers from being stored, or soon will; empty if nothing does."""


def as_json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Response(body, status, {"Cache-Control": "no-store", **(headers or {})}, "application/json")
