"""The administrator's side of a study: how far it is, and its answers as a file. Behind a token."""

import hmac
import html
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from limen.listening.analysis.columns import answer_columns, codebook
from limen.listening.server.guard import Buckets, Limits, cookie, network_of, sender
from limen.listening.server.messages import Problem, Progress, as_json
from limen.listening.server.resume import PAGE
from limen.listening.server.seats import STATES
from limen.listening.server.sessions import Sessions
from limen.listening.server.store import Store

Bearer = Annotated[
    HTTPAuthorizationCredentials | None,
    Depends(HTTPBearer(auto_error=False, description="The administrator's token")),
]
DAY_S = 24 * 3600
LOGIN = """<form method="post">
<p><label>Token <input name="token" type="password" autocomplete="current-password" required></label> <button>Log in</button></p></form>
<p>The token was printed when the server started.</p>"""


def default_token(store: Store) -> str:
    """Stays the same for a database, and cannot be guessed."""
    return hmac.digest(store.secret, b"admin", "sha256").hex()[:32]


def routes(sessions: Sessions, token: str, limits: Limits) -> APIRouter:
    wrong, name = Buckets(limits.token_per_s, limits.token_burst), sessions.keys.cookie("admin")
    ticket = hmac.digest(
        sessions.store.secret, b"ticket" + token.encode(), "sha256"
    ).hex()  # what the cookie holds in place of the token
    problems: dict[int | str, dict[str, Any]] = {
        s: {"model": Problem} for s in (400, 401, 403, 404, 413, 422, 429, 503)
    }
    router = APIRouter(responses=problems)

    def check(request: Request, given: str | None, right: str = token) -> bool:
        """Whether it is the right one. Wrong ones are counted by network, and never keep out an operator who
        shares it: a token is too long to be found by trying."""
        if given is None or hmac.compare_digest(given.encode(errors="replace"), right.encode()):
            return given is not None
        if wait_s := wrong.wait_s(network_of(sender(request.scope))):
            raise HTTPException(
                429, "Too many wrong tokens. Wait, then try again.", {"Retry-After": str(int(wait_s) + 1)}
            )
        return False

    def allowed(request: Request, given: HTTPAuthorizationCredentials | None) -> bool:
        if given:
            return check(request, given.credentials)
        return check(request, cookie(dict(request.scope["headers"]), name), ticket)

    def needed(request: Request, given: Bearer) -> None:
        if not allowed(request, given):
            raise HTTPException(
                401,
                "This needs the administrator's token: Authorization: Bearer TOKEN.",
                {"WWW-Authenticate": "Bearer"},
            )

    def progress() -> dict[str, Any]:
        told = {
            "name": sessions.study.name,
            "wanted": sessions.study.listeners,
            "trouble": sessions.store.trouble(),
        }
        return told | sessions.store.progress()

    @router.get("/api/admin/progress", response_model=Progress, dependencies=[Depends(needed)])
    async def how_far() -> Response:
        """Listeners by group: finished, active, dropped out, begun, left; answers so far; what keeps answers
        from being stored."""
        return as_json(await run_in_threadpool(progress))

    @router.get(
        "/api/admin/export.csv",
        response_class=Response,
        responses={200: {"content": {"text/csv": {}}}},
        dependencies=[Depends(needed)],
    )
    async def export() -> Response:
        """All answers, one row each; nothing personal."""
        return _csv(await run_in_threadpool(table, sessions), f"{sessions.study.name}.csv")

    @router.get(
        "/api/admin/codebook.csv",
        response_class=Response,
        responses={200: {"content": {"text/csv": {}}}},
        dependencies=[Depends(needed)],
    )
    async def explained() -> Response:
        """What each column of the answers holds."""
        return _csv(codebook(answer_columns(sessions.study)), f"{sessions.study.name}.codebook.csv")

    @router.get("/admin", response_class=HTMLResponse, include_in_schema=False)
    async def page(request: Request, given: Bearer) -> HTMLResponse:
        if not allowed(request, given):
            return _page(sessions, LOGIN, 401)
        return _page(
            sessions,
            _progress_table(await run_in_threadpool(progress)),
            head='<meta http-equiv="refresh" content="20">',
        )

    @router.post("/admin", response_class=HTMLResponse, include_in_schema=False)
    async def login(request: Request) -> Response:
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        if not check(request, form.get("token", [""])[0].strip()):
            return _page(sessions, "<p role='alert'>This is not the token.</p>" + LOGIN, 401)
        response = RedirectResponse("admin", 303)
        secure = request.url.scheme == "https"
        response.set_cookie(name, ticket, max_age=DAY_S, httponly=True, samesite="strict", secure=secure)
        return response

    return router


def table(sessions: Sessions) -> bytes:
    """The answers as CSV."""
    from limen.listening.analysis.export import rows, write

    answers = rows(sessions.store.answers(), sessions.store.listeners(), sessions.study)
    with tempfile.TemporaryDirectory() as folder:
        return write(answers, Path(folder) / "answers.csv", answer_columns(sessions.study)).read_bytes()


def _csv(content: bytes, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Response(content, media_type="text/csv", headers=headers)


def _page(sessions: Sessions, body: str, status: int = 200, head: str = "") -> HTMLResponse:
    text = PAGE.format(root="", head=head, title=html.escape(sessions.study.title), body=body)
    return HTMLResponse(text, status, {"Cache-Control": "no-store"})


def _progress_table(progress: dict[str, Any]) -> str:
    rows = [(name or "all", group) for name, group in progress["groups"].items()]
    if len(rows) > 1:
        rows.append(("all", progress))
    lines = "".join(
        f"<tr><th scope='row'>{html.escape(name)}</th>"
        + "".join(f"<td>{group[c]}</td>" for c in STATES)
        + "</tr>"
        for name, group in rows
    )
    heads = "".join(f"<th scope='col'>{c}</th>" for c in ("group", *STATES))
    last = progress["last_answer_at"]
    when = f"; the last {max(0, time.time() - last):.0f} s ago" if last else ""
    door = (
        "The study is closed."
        if progress["closed"]
        else f"{progress['finished']} of {progress['wanted']} listeners have finished."
    )
    declined = f" {progress['declined']} did not agree to take part." if progress["declined"] else ""
    alarm = (
        f"<p role='alert'><strong>{html.escape(progress['trouble'])}</strong></p>"
        if progress["trouble"]
        else ""
    )
    return (
        f"{alarm}<p>{door} {progress['answers']} answers{when}.{declined}</p>"
        f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table><p><a "
        "href='api/admin/export.csv'>Answers as CSV</a>, <a href='api/admin/codebook.csv'>what its columns "
        "hold</a></p>"
    )
