"""The personal address of a listener, `/resume/KEY`, and the cookie that holds the key.

Opening the address changes nothing: programs that preview links open it too. A button takes the listener over
into this browser, and says so if another listener's session is going on here.
"""

import html
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Path as InPath
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from limen.listening.server.guard import cookie
from limen.listening.server.keys import hashed
from limen.listening.server.messages import Problem
from limen.listening.server.sessions import Sessions

YEAR_S = 365 * 24 * 3600
Opaque = Annotated[str, InPath(max_length=200)]
# addresses are relative: the server may stand under a path of its host
PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="robots" content="noindex">
{head}<title>{title}</title><link rel="stylesheet" href="{root}static/page.css"></head>
<body><main><h1>{title}</h1><div class="text">{body}</div></main></body>
</html>
"""
ASK = """<p>Your answers so far are stored, and you go on where you were.</p>
<form method="post"><p><button class="go">Go on in this browser</button></p></form>"""
ASK_OTHER = """<p role="alert">Another listener's session is going on in this browser.</p>
<p>If it is not yours, go on here, and that listener needs their own address to come back. If you are in doubt, close this page.</p>
<form method="post"><input type="hidden" name="instead" value="{other}">
<p><button class="go">Go on instead of the other listener</button></p></form>
<p><a href="../">Back to the session that is going on</a></p>"""


def key_of(request: Request, sessions: Sessions) -> str | None:
    """The key of the listener whom the browser is known as."""
    return cookie(dict(request.scope["headers"]), sessions.keys.cookie())


def known(request: Request, response: Response, key: str, sessions: Sessions) -> Response:
    """The response, with which the browser is known as the listener of a key."""
    secure = request.url.scheme == "https"
    response.set_cookie(
        sessions.keys.cookie(), key, max_age=YEAR_S, httponly=True, samesite="strict", secure=secure
    )
    return response


def routes(sessions: Sessions) -> APIRouter:
    problems: dict[int | str, dict[str, Any]] = {
        status: {"model": Problem} for status in (404, 422, 429, 503)
    }
    router = APIRouter(responses=problems)

    def asked(key: str, now: str | None) -> tuple[bool, str]:
        """Whether the browser is known as this listener already, and what names another whose session is
        going on in it."""
        listener, other = (sessions.store.find(hashed(k)) if k else None for k in (key, now))
        if listener is None:
            raise HTTPException(404, "Nobody is known by this address. Check that it is complete.")
        if other is None or other.id == listener.id:
            return other is not None, ""
        return False, "" if other.finished_at else sessions.keys.sign("other", other.id).hex()[:16]

    @router.get(
        "/resume/{key}",
        response_class=Response,
        responses={
            200: {"content": {"text/html": {}}},
            303: {"description": "It is this listener's already"},
        },
    )
    async def page(request: Request, key: Opaque) -> Response:
        """Asks whether to go on here, where the listener was on another device."""
        already, other = await run_in_threadpool(asked, key, key_of(request, sessions))
        return _home() if already else _asking(sessions, other)

    @router.post("/resume/{key}", include_in_schema=False)
    async def go_on(request: Request, key: Opaque) -> Response:
        already, other = await run_in_threadpool(asked, key, key_of(request, sessions))
        # a page opened from elsewhere could not see the cookie: whoever was not told of the other listener is
        # asked again
        if other and f"instead={other}".encode() not in (await request.body()).split(b"&"):
            return _asking(sessions, other)
        return _home() if already else known(request, _home(), key, sessions)

    return router


def _home() -> Response:
    return RedirectResponse("../", 303, {"Cache-Control": "no-store"})


def _asking(sessions: Sessions, other: str) -> HTMLResponse:
    body = (ASK_OTHER if other else ASK).format(other=other)
    text = PAGE.format(root="../", head="", title=html.escape(sessions.study.title), body=body)
    return HTMLResponse(text, 200, {"Cache-Control": "no-store"})
