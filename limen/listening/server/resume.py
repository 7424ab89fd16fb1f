"""The personal address of a listener, `/resume/KEY`, and the cookie that holds the key.

Opening the address changes nothing, because programs that preview links open it too. A button moves the
listener to this browser; the page warns if another listener is taking part in it.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Path as InPath
from fastapi.responses import RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from limen.listening.server.html_pages import html_page
from limen.listening.server.identifiers import hash_key
from limen.listening.server.messages import Problem
from limen.listening.server.request_checks import cookie
from limen.listening.server.sessions import Sessions

YEAR_S = 365 * 24 * 3600
Opaque = Annotated[str, InPath(max_length=200)]


def listener_key(request: Request, sessions: Sessions) -> str | None:
    """The key of the listener that the browser's cookie names."""
    return cookie(dict(request.scope["headers"]), sessions.identifiers.cookie_name())


def set_listener_key(request: Request, response: Response, key: str, sessions: Sessions) -> Response:
    """The response, with a cookie that names this listener."""
    name, secure = sessions.identifiers.cookie_name(), request.url.scheme == "https"
    response.set_cookie(name, key, max_age=YEAR_S, httponly=True, samesite="strict", secure=secure)
    return response


def routes(sessions: Sessions) -> APIRouter:
    problems: dict[int | str, dict[str, Any]] = {
        status: {"model": Problem} for status in (404, 422, 429, 503)
    }
    router = APIRouter(responses=problems)

    def listeners_of(key: str, cookie_key: str | None) -> tuple[bool, str]:
        """Whether the browser belongs to this listener already, and the id of another listener who is taking
        part in it, empty if there is none."""
        listener, other = (sessions.store.find(hash_key(k)) if k else None for k in (key, cookie_key))
        if listener is None:
            raise HTTPException(404, "No listener has this address. Check that it is complete.")
        if other is None or other.id == listener.id:
            return other is not None, ""
        return False, "" if other.finished_at else sessions.identifiers.sign("other", other.id).hex()[:16]

    @router.get(
        "/resume/{key}",
        response_class=Response,
        responses={
            200: {"content": {"text/html": {}}},
            303: {"description": "The browser already belongs to this listener"},
        },
    )
    async def page(request: Request, key: Opaque) -> Response:
        """Ask whether to continue here, where the listener stopped on another device."""
        same, other = await run_in_threadpool(listeners_of, key, listener_key(request, sessions))
        return _home() if same else _confirmation(sessions, other)

    @router.post("/resume/{key}", include_in_schema=False)
    async def resume(request: Request, key: Opaque) -> Response:
        same, other = await run_in_threadpool(listeners_of, key, listener_key(request, sessions))
        # a page opened from another site had no access to the cookie and could not warn of the other
        # listener: ask again
        if other and f"instead={other}".encode() not in (await request.body()).split(b"&"):
            return _confirmation(sessions, other)
        return _home() if same else set_listener_key(request, _home(), key, sessions)

    return router


def _home() -> Response:
    return RedirectResponse("../", 303, {"Cache-Control": "no-store"})


def _confirmation(sessions: Sessions, other: str) -> Response:
    return html_page("resume.html.j2", title=sessions.study.title, root="../", other=other)
