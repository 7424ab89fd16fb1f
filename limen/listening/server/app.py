"""The web server of a study: the listener's page, its API and the administrator's pages.

uvicorn runs `app(...)`; every answer is acknowledged after its commit, so the process may be killed at any
moment.
"""

import asyncio
import gc
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from limen.core.errors import UserError
from limen.listening.server import admin, resume
from limen.listening.server.answers import short, storable
from limen.listening.server.arrivals import Crowded
from limen.listening.server.guard import Guard, Limits, sender
from limen.listening.server.messages import (
    Answer,
    Begin,
    Declined,
    Event,
    Noted,
    Preview,
    Problem,
    State,
    Stored,
    as_json,
)
from limen.listening.server.resume import Opaque, key_of, known
from limen.listening.server.seats import DoorClosed, Released, Unknown
from limen.listening.server.sessions import Sessions
from limen.listening.server.store import Store
from limen.listening.study import read_study

LOG = logging.getLogger("limen.listening")
WEB = Path(__file__).parent / "web"
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": words}
    for status, words in {
        400: "No JSON",
        401: "No listener",
        403: "Closed, or forged",
        404: "Not found",
        409: "Begin again",
        413: "Too long",
        422: "Invalid",
        429: "Too many requests",
        503: "Try again",
    }.items()
}


def app(
    study_path: str | Path,
    database_url: str | None = None,
    *,
    token: str | None = None,
    limits: Limits | None = None,
    patience_min: float = 60,
    begun_min: float = 10,
    cache: Path | None = None,
) -> FastAPI:
    """The application for a study file. Answers go to NAME.db beside it, or to `database_url`.

    `token` lets the administrator in (by default one that stays the same for a database: `app.state.token`);
    `limits` bound what is taken from whom; a listener who has neither answered nor fetched a sound for
    `patience_min` minutes leaves their place to another, one who has begun and heard nothing yet after
    `begun_min`; `cache` keeps the sounds that were made.
    """
    limits = limits or Limits()
    study_path = Path(study_path)
    study = read_study(study_path)
    store = Store(database_url or study_path.parent / f"{study.name}.db", patience_min, begun_min)
    sessions = Sessions(study, study_path.parent, store, cache, limits)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        # listeners do not wait for it; a sound that is not ready yet is made when it is asked for
        threading.Thread(target=_quietly(sessions.prepare), daemon=True).start()
        yield

    site = FastAPI(
        title=study.title,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        openapi_url="/api/openapi.json",
        lifespan=life,
        version="1",
    )
    site.state.sessions, site.state.token = sessions, token or admin.default_token(store)
    site.state.cookie, site.state.limits = sessions.keys.cookie(), limits
    site.include_router(_routes(sessions))
    site.include_router(resume.routes(sessions))
    site.include_router(admin.routes(sessions, site.state.token, limits))
    site.mount("/static", StaticFiles(directory=WEB))
    site.add_middleware(Guard, limits=limits, cookie_name=site.state.cookie)
    for kind, answer in HANDLERS.items():
        site.add_exception_handler(kind, answer)
    return site


def serve(
    study_path: str | Path,
    database_url: str | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    announce: Callable[[FastAPI], None] = lambda site: None,
    **more: Any,
) -> None:
    """Runs the server until it is stopped; `announce` gets the application before it begins, `more` goes to
    `app`.

    One process serves a study: sessions in its memory are what makes it fast, and hundreds of listeners do
    not fill a core. Behind a proxy on the same machine, the addresses and the scheme that it forwards are
    believed.
    """
    import torch
    import uvicorn

    from limen.listening.server.slow_connections import timely

    sys.setswitchinterval(
        0.001
    )  # replies wait for the lock of the interpreter behind whoever makes a sound: not for long
    torch.set_num_threads(1)  # making a sound must not take every core from those who wait for a reply
    site = app(study_path, database_url, **more)
    # looking through everything for garbage stops all replies for a good part of a second, several times a
    # minute, and finds none
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 1000)
    _allow_connections()
    proxies = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1")
    announce(site)
    try:
        uvicorn.run(
            site,
            host=host,
            port=port,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_keep_alive=20,
            backlog=4096,
            forwarded_allow_ips=proxies,
            http=timely(site.state.limits, proxies),
        )
    finally:
        site.state.sessions.store.close()


def _allow_connections() -> None:
    """Lets the process open as many connections as the system allows it, not as few as it begins with."""
    with suppress(ImportError, OSError, ValueError):  # not on every system
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _routes(sessions: Sessions) -> APIRouter:
    routes = APIRouter(responses=PROBLEMS)
    makers = ThreadPoolExecutor(
        1, "sounds"
    )  # one of their own: whoever waits for a sound must not keep answers waiting

    def needed(request: Request) -> str:
        key = key_of(request, sessions)
        if not key:
            raise Unknown
        return key

    @routes.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(WEB / "page.html", headers={"Cache-Control": "no-cache"})

    @routes.post("/api/begin", response_model=State | Preview)
    async def begin(request: Request, body: Begin) -> Response:
        """Begins, or goes on where this listener was; somebody who only looks sees a preview."""
        storable(body.parameters)
        if sessions.study.recruitment.previews(body.parameters):
            return as_json(sessions.preview())
        key = await run_in_threadpool(
            sessions.begin, body.parameters, key_of(request, sessions), sender(request.scope)
        )
        return known(request, as_json(await run_in_threadpool(sessions.state, key, False)), key, sessions)

    @routes.get("/api/state", response_model=State | Preview)
    async def state(request: Request) -> Response:
        """The screen that this listener is at. The parameters are those of the page's address."""
        parameters = dict(request.query_params)
        storable(parameters)
        if sessions.study.recruitment.previews(parameters):
            return as_json(sessions.preview())
        return as_json(await run_in_threadpool(sessions.state, needed(request), True, parameters))

    @routes.post("/api/answer", response_model=Stored)
    async def answer(request: Request, body: Answer) -> Response:
        """Stores the answer to a screen, once; the reply comes after the commit."""
        key, playback = needed(request), [p.model_dump() for p in body.playback]
        given = (key, body.screen, body.attempt, body.answer, playback, body.response_ms)
        # most answers need no thread but the writer's: threads that wait for each other are what makes
        # hundreds of listeners wait
        offer = (
            sessions.offer(*given)
            if sessions.at_hand(key, body.screen)
            else await run_in_threadpool(sessions.offer, *given)
        )
        if (
            offer.stored is not None
            and await asyncio.wrap_future(offer.stored)
            and offer.following is not None
        ):
            return as_json(sessions.settle(offer))
        return as_json(await run_in_threadpool(sessions.settle, offer))

    @routes.post("/api/decline", response_model=Declined)
    async def decline(request: Request) -> Response:
        """Ends the study for a listener who does not agree: all that is known of them is deleted, and one
        refusal more is counted."""
        await run_in_threadpool(sessions.decline, needed(request))
        response = as_json({"declined": True})
        response.delete_cookie(sessions.keys.cookie())
        return response

    @routes.post("/api/event", response_model=Noted)
    async def event(request: Request, body: Event) -> Response:
        """Notes something that happened on the page: a hidden tab, a sound that does not play."""
        return as_json(
            {"stored": await run_in_threadpool(sessions.event, needed(request), body.screen, body.kind)}
        )

    @routes.get("/audio/{opaque}", response_class=Response, responses={200: {"content": {"audio/wav": {}}}})
    async def audio(request: Request, opaque: Opaque) -> Response:
        """A sound of the listener's present screen."""
        key = needed(request)
        try:
            sound = sessions.audio_at_once(key, opaque) or await asyncio.wrap_future(
                makers.submit(sessions.audio, key, opaque)
            )
        except Unknown:
            raise
        except UserError as error:  # the message names the file, which a listener must not know
            LOG.error("A sound cannot be made: %s", error)
            raise HTTPException(
                500, "This sound cannot be played. Please tell those who run the study."
            ) from None
        if sound is None:
            raise HTTPException(404, "There is no such sound on your present screen.")
        sessions.fetched(key)
        return Response(sound, media_type="audio/wav", headers={"Cache-Control": "no-store"})

    return routes


def _quietly(job: Callable[[], None]) -> Callable[[], None]:
    def run() -> None:
        try:
            job()
        except UserError as error:
            LOG.error("Sounds could not be prepared: %s", error)

    return run


STATUS: dict[type[Exception], int] = {Unknown: 401, DoorClosed: 403, Released: 409, Crowded: 429}


async def _user_error(request: Request, error: Exception) -> Response:
    status = next((s for kind, s in STATUS.items() if isinstance(error, kind)), 422)
    headers = {"Retry-After": str(int(error.wait_s) + 1)} if isinstance(error, Crowded) else None
    study = request.app.state.sessions.study
    return as_json(
        {"error": str(error), "study": {"title": study.title, "contact": study.contact}}, status, headers
    )


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return as_json({"error": str(error.detail)}, error.status_code, dict(error.headers or {}))


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(ascii(part)[:60].strip("'") for part in first["loc"] if part != "body")
    if first["type"] == "json_invalid":
        return as_json({"error": "The body of the request is no JSON."}, 400)
    return as_json(
        {"error": f"{place or 'The request'}: {first['msg']}; {short(first.get('input'))} came."}, 422
    )


async def _unavailable(_: Request, error: Exception) -> Response:
    sentence = (
        "Not stored yet: the server cannot write at the moment. Your page keeps your answer and "
        "sends it again."
    )
    return as_json({"error": sentence}, 503, {"Retry-After": "5"})


async def _failed(_: Request, error: Exception) -> Response:
    return as_json({"error": "Something went wrong on the server."}, 500)


HANDLERS: dict[type[Exception], Any] = {
    UserError: _user_error,
    HTTPException: _http_error,
    RequestValidationError: _invalid,
    SQLAlchemyError: _unavailable,
    Exception: _failed,
}
