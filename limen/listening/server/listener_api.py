"""The listener's page and its API."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from limen.core.errors import UserError
from limen.listening.server import answering
from limen.listening.server.answers import storable
from limen.listening.server.enrolment import UnknownListener
from limen.listening.server.limits import client_address
from limen.listening.server.messages import (
    Answer,
    Begin,
    Declined,
    Event,
    EventStored,
    Preview,
    Problem,
    State,
    Stored,
    as_json,
)
from limen.listening.server.resume import Opaque, listener_key, set_listener_key
from limen.listening.server.sessions import Sessions

LOG = logging.getLogger("limen.listening")
WEB = Path(__file__).parent / "web"
DESCRIPTIONS = {
    400: "Not valid JSON",
    401: "Unknown listener",
    403: "The study is closed, or the request was forged",
    404: "Not found",
    409: "The listener has to begin again",
    413: "Too long",
    422: "Invalid",
    429: "Too many requests",
    503: "Try again later",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text} for status, text in DESCRIPTIONS.items()
}


def routes(sessions: Sessions) -> APIRouter:
    router = APIRouter(responses=PROBLEMS)
    # a thread of their own: requests that wait for a sound must not delay answers
    sound_thread = ThreadPoolExecutor(1, "sounds")

    def required_key(request: Request) -> str:
        key = listener_key(request, sessions)
        if not key:
            raise UnknownListener
        return key

    @router.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(WEB / "page.html", headers={"Cache-Control": "no-cache"})

    @router.post("/api/begin", response_model=State | Preview)
    async def begin(request: Request, body: Begin) -> Response:
        """Begin the study, or continue where this listener stopped; a preview stores nothing."""
        storable(body.parameters)
        if sessions.study.recruitment.previews(body.parameters):
            return as_json(sessions.preview())
        key = await run_in_threadpool(
            sessions.begin,
            body.parameters,
            listener_key(request, sessions),
            client_address(request.scope),
        )
        state = await run_in_threadpool(sessions.state, key, False)
        return set_listener_key(request, as_json(state), key, sessions)

    @router.get("/api/state", response_model=State | Preview)
    async def state(request: Request) -> Response:
        """The screen that this listener is at. The query parameters are those of the page's address."""
        parameters = dict(request.query_params)
        storable(parameters)
        if sessions.study.recruitment.previews(parameters):
            return as_json(sessions.preview())
        return as_json(await run_in_threadpool(sessions.state, required_key(request), True, parameters))

    @router.post("/api/answer", response_model=Stored)
    async def answer(request: Request, body: Answer) -> Response:
        """Store the answer to a screen, once; the reply is sent after the commit."""
        key, playback = required_key(request), [p.model_dump() for p in body.playback]
        arguments = (sessions, key, body.screen, body.attempt, body.answer, playback, body.response_ms)
        # most answers need no thread except the writer's: with hundreds of listeners, threads waiting for
        # each other are what makes replies slow
        if answering.is_immediate(sessions, key, body.screen):
            pending = answering.submit(*arguments)
        else:
            pending = await run_in_threadpool(answering.submit, *arguments)
        is_new = pending.stored is not None and await asyncio.wrap_future(pending.stored)
        if is_new and pending.next_screen is not None:
            return as_json(answering.complete(sessions, pending))
        return as_json(await run_in_threadpool(answering.complete, sessions, pending))

    @router.post("/api/decline", response_model=Declined)
    async def decline(request: Request) -> Response:
        """End the study for a listener who does not agree: all data about them is deleted, and one more
        refusal is counted."""
        await run_in_threadpool(sessions.decline, required_key(request))
        response = as_json({"declined": True})
        response.delete_cookie(sessions.identifiers.cookie_name())
        return response

    @router.post("/api/event", response_model=EventStored)
    async def event(request: Request, body: Event) -> Response:
        """Store an event on the page: it was hidden, or a sound did not play."""
        key = required_key(request)
        return as_json({"stored": await run_in_threadpool(sessions.event, key, body.screen, body.kind)})

    @router.get("/audio/{opaque}", response_class=Response, responses={200: {"content": {"audio/wav": {}}}})
    async def audio(request: Request, opaque: Opaque) -> Response:
        """A sound of the listener's current screen."""
        key = required_key(request)
        try:
            sound = sessions.audio_in_memory(key, opaque) or await asyncio.wrap_future(
                sound_thread.submit(sessions.audio, key, opaque)
            )
        except UnknownListener:
            raise
        except UserError as error:  # the message contains the file name, which a listener must not learn
            LOG.error("A sound cannot be rendered: %s", error)
            raise HTTPException(
                500, "This sound cannot be played. Please tell the people who run the study."
            ) from None
        if sound is None:
            raise HTTPException(404, "Your current screen has no such sound.")
        sessions.fetched(key)
        return Response(sound, media_type="audio/wav", headers={"Cache-Control": "no-store"})

    return router
