"""Error replies: every error becomes a status and a JSON object with a sentence."""

from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from limen.core.errors import UserError
from limen.listening.server.answers import short
from limen.listening.server.enrolment import NumberReassigned, StudyClosed, UnknownListener
from limen.listening.server.messages import as_json
from limen.listening.server.network_limit import TooManyFromNetwork

STATUS: dict[type[Exception], int] = {
    UnknownListener: 401,
    StudyClosed: 403,
    NumberReassigned: 409,
    TooManyFromNetwork: 429,
}


async def _user_error(request: Request, error: Exception) -> Response:
    status = next((s for kind, s in STATUS.items() if isinstance(error, kind)), 422)
    headers = None
    if isinstance(error, TooManyFromNetwork):
        headers = {"Retry-After": str(int(error.wait_s) + 1)}
    study = request.app.state.sessions.study
    return as_json(
        {"error": str(error), "study": {"title": study.title, "contact": study.contact}}, status, headers
    )


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return as_json({"error": str(error.detail)}, error.status_code, dict(error.headers or {}))


async def _invalid_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(ascii(part)[:60].strip("'") for part in first["loc"] if part != "body")
    if first["type"] == "json_invalid":
        return as_json({"error": "The body of the request is not valid JSON."}, 400)
    return as_json(
        {"error": f"{where or 'The request'}: {first['msg']}, got {short(first.get('input'))}."}, 422
    )


async def _database_error(_: Request, error: Exception) -> Response:
    message = (
        "Not stored yet: the server cannot write at the moment. Your page keeps your answer and sends it "
        "again."
    )
    return as_json({"error": message}, 503, {"Retry-After": "5"})


async def _unexpected_error(_: Request, error: Exception) -> Response:
    return as_json({"error": "An unexpected error occurred on the server."}, 500)


HANDLERS: dict[type[Exception], Any] = {
    UserError: _user_error,
    HTTPException: _http_error,
    RequestValidationError: _invalid_request,
    SQLAlchemyError: _database_error,
    Exception: _unexpected_error,
}
