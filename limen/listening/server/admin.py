"""The administrator's pages of a study, behind a token: its progress, and its answers as a file."""

import hmac
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
from limen.listening.server.enrolment import STATES
from limen.listening.server.html_pages import html_page
from limen.listening.server.limits import Limits, RateLimiter, client_address, network_of
from limen.listening.server.messages import Problem, Progress, as_json
from limen.listening.server.request_checks import cookie
from limen.listening.server.sessions import Sessions
from limen.listening.server.store import Store

Bearer = Annotated[
    HTTPAuthorizationCredentials | None,
    Depends(HTTPBearer(auto_error=False, description="The administrator's token")),
]
DAY_S = 24 * 3600


def default_token(store: Store) -> str:
    """A token that stays the same for a database and cannot be guessed."""
    return hmac.digest(store.secret, b"admin", "sha256").hex()[:32]


def routes(sessions: Sessions, token: str, limits: Limits) -> APIRouter:
    wrong_tokens = RateLimiter(limits.token_per_s, limits.token_burst)
    cookie_name = sessions.identifiers.cookie_name("admin")
    # the cookie holds this in place of the token
    ticket = hmac.digest(sessions.store.secret, b"ticket" + token.encode(), "sha256").hex()
    problems: dict[int | str, dict[str, Any]] = {
        s: {"model": Problem} for s in (400, 401, 403, 404, 413, 422, 429, 503)
    }
    router = APIRouter(responses=problems)

    def matches(request: Request, given: str | None, expected: str = token) -> bool:
        """Whether the token is right. Wrong tokens are counted by network, and never lock out an operator in
        the same network: a token is too long to be found by trying."""
        if given is None or hmac.compare_digest(given.encode(errors="replace"), expected.encode()):
            return given is not None
        if wait_s := wrong_tokens.wait_s(network_of(client_address(request.scope))):
            raise HTTPException(
                429, "Too many wrong tokens. Wait, then try again.", {"Retry-After": str(int(wait_s) + 1)}
            )
        return False

    def allowed(request: Request, given: HTTPAuthorizationCredentials | None) -> bool:
        if given:
            return matches(request, given.credentials)
        return matches(request, cookie(dict(request.scope["headers"]), cookie_name), ticket)

    def require_token(request: Request, given: Bearer) -> None:
        if not allowed(request, given):
            raise HTTPException(
                401,
                "This needs the administrator's token: Authorization: Bearer TOKEN.",
                {"WWW-Authenticate": "Bearer"},
            )

    def progress() -> dict[str, Any]:
        study, store = sessions.study, sessions.store
        about = {"name": study.name, "wanted": study.listeners, "storage_problem": store.storage_problem()}
        return about | store.progress()

    @router.get("/api/admin/progress", response_model=Progress, dependencies=[Depends(require_token)])
    async def progress_as_json() -> Response:
        """Listeners by group (finished, active, dropped out, starting, left), the number of answers, and what
        prevents answers from being stored."""
        return as_json(await run_in_threadpool(progress))

    @router.get(
        "/api/admin/export.csv",
        response_class=Response,
        responses={200: {"content": {"text/csv": {}}}},
        dependencies=[Depends(require_token)],
    )
    async def export() -> Response:
        """All answers, one row each, without personal data."""
        return _csv(await run_in_threadpool(table, sessions), f"{sessions.study.name}.csv")

    @router.get(
        "/api/admin/codebook.csv",
        response_class=Response,
        responses={200: {"content": {"text/csv": {}}}},
        dependencies=[Depends(require_token)],
    )
    async def export_codebook() -> Response:
        """What each column of the exported answers holds."""
        return _csv(codebook(answer_columns(sessions.study)), f"{sessions.study.name}.codebook.csv")

    @router.get("/admin", response_class=HTMLResponse, include_in_schema=False)
    async def page(request: Request, given: Bearer) -> HTMLResponse:
        if not allowed(request, given):
            return _login(sessions, wrong=False)
        return _progress_page(sessions, await run_in_threadpool(progress))

    @router.post("/admin", response_class=HTMLResponse, include_in_schema=False)
    async def login(request: Request) -> Response:
        form = parse_qs((await request.body()).decode("utf-8", "replace"))
        if not matches(request, form.get("token", [""])[0].strip()):
            return _login(sessions, wrong=True)
        response, secure = RedirectResponse("admin", 303), request.url.scheme == "https"
        response.set_cookie(
            cookie_name, ticket, max_age=DAY_S, httponly=True, samesite="strict", secure=secure
        )
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


def _login(sessions: Sessions, wrong: bool) -> HTMLResponse:
    return html_page("login.html.j2", 401, title=sessions.study.title, root="", wrong=wrong)


def _progress_page(sessions: Sessions, progress: dict[str, Any]) -> HTMLResponse:
    rows = [(name or "all", counts) for name, counts in progress["groups"].items()]
    if len(rows) > 1:
        rows.append(("all", progress))
    last = progress["last_answer_at"]
    return html_page(
        "progress.html.j2",
        title=sessions.study.title,
        root="",
        progress=progress,
        last_answer_s=max(0.0, time.time() - last) if last else None,
        states=STATES,
        rows=rows,
    )
