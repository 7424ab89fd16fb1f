"""Requests and replies between a listener's page, the administrator's page and the server."""

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
    """Query parameters of the page's address; those that are recruitment parameters of the study are
    stored."""


class Playback(Message):
    """How a sound was played, with a hash that proves which samples were decoded."""

    label: Short
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None
    """SHA-256 of the decoded samples."""
    rate_hz: float = Field(default=0, ge=0, le=1e6)
    """Sample rate of the audio device."""
    plays: int = Field(default=0, ge=0, le=1_000_000)
    """Number of times it was started or repeated in a loop."""
    switches: int = Field(default=0, ge=0, le=1_000_000)
    """Number of times the listener switched to it while another sound played."""
    played_s: float = Field(default=0, ge=0, le=1e6)
    """Seconds of it that were played."""


class Answer(Message):
    screen: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """The id of the screen, as sent with it."""
    attempt: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
    """An identifier that the page draws for this answer; the same when it is sent again."""
    answer: dict[str, Any]
    """Values by widget name."""
    playback: Annotated[list[Playback], Field(max_length=64)] = []
    response_ms: float | None = Field(default=None, ge=0, le=1e9)


class Event(Message):
    kind: Literal["hidden", "visible", "sound.silent", "sound.broken"]
    """The page was hidden or shown again; a sound did not play or could not be loaded."""
    screen: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """The id of the screen that was shown."""


class StudyTitle(Message):
    title: str
    contact: str


class Problem(Message):
    error: str
    """What is wrong, as a sentence."""
    study: StudyTitle | None = None
    """Title and contact of the study, for the welcome page of a listener who is not known yet."""


class SoundAddress(Message):
    label: str
    rated: bool
    """Whether widgets that need an answer for each sound include this one."""
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
    study: StudyTitle
    position: int
    total: int
    done: Literal[False]
    screen: ScreenShown
    resume: str
    """Address that continues here on another device."""


class AtEnd(Message):
    study: StudyTitle
    position: int
    total: int
    done: Literal[True]
    code: str
    """Completion code."""
    redirect: str | None


class Preview(Message):
    """The first pages, for a visitor to whom the recruitment site shows the study before they take part."""

    study: StudyTitle
    preview: Literal[True]
    screens: list[ScreenShown]


State = Annotated[AtScreen | AtEnd, Field(discriminator="done")]


class Feedback(Message):
    correct: bool
    truth_text: str


class Stored(Message):
    """The answer has been written to the disk."""

    stored: Literal[True]
    again: bool
    """The screen had an answer already: nothing was stored."""
    feedback: Feedback | None
    state: State


class Declined(Message):
    """No data about this listener are stored any more."""

    declined: Literal[True]


class EventStored(Message):
    stored: bool
    """False before consent, after the last answer, and once the largest number of events is stored."""


class GroupProgress(Message):
    finished: int
    active: int
    """Have a place and have not finished."""
    dropped: int
    """Have a place but have been idle for too long: another listener may take it."""
    starting: int
    """Listeners who have begun, but have no place until they have heard a sound."""
    left: int
    """Were idle for too long before they had a place."""


class Progress(GroupProgress):
    name: str
    wanted: int
    declined: int
    """Number of people who did not agree to take part; nothing else is stored about them."""
    groups: dict[str, GroupProgress]
    answers: int
    last_answer_at: float | None
    closed: bool
    storage_problem: str
    """What prevents answers from being stored, or soon will; empty if nothing does."""


def as_json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return Response(body, status, {"Cache-Control": "no-store", **(headers or {})}, "application/json")
