"""The web server of a study: the listener's page, its API and the administrator's pages.

uvicorn runs `app(...)`. Every answer is acknowledged after its commit, so the process may be killed at any
moment.
"""

import gc
import logging
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles

from limen.core.errors import UserError
from limen.listening.server import admin, listener_api, resume
from limen.listening.server.errors import HANDLERS
from limen.listening.server.limits import Limits
from limen.listening.server.request_checks import RequestChecks
from limen.listening.server.sessions import Sessions
from limen.listening.server.store import Store
from limen.listening.study import read_study

LOG = logging.getLogger("limen.listening")


def app(
    study_path: str | Path,
    database_url: str | None = None,
    *,
    token: str | None = None,
    limits: Limits | None = None,
    idle_timeout_min: float = 60,
    start_timeout_min: float = 10,
    cache: Path | None = None,
) -> FastAPI:
    """The application that serves a study file. Answers are stored in NAME.db in the folder of the study
    file, or in `database_url`.

    `token`: opens the administrator's pages; the default, `app.state.token`, stays the same for a database.
    `limits`: limits on requests. A listener who has neither answered nor fetched a sound for
    `idle_timeout_min` minutes loses their place to another; one who has not heard a sound yet, after
    `start_timeout_min`. `cache`: folder for rendered sounds.
    """
    limits = limits or Limits()
    study_path = Path(study_path)
    study = read_study(study_path)
    database = database_url or study_path.parent / f"{study.name}.db"
    store = Store(database, idle_timeout_min, start_timeout_min)
    sessions = Sessions(study, study_path.parent, store, cache, limits)

    @asynccontextmanager
    async def prepare_in_background(_: FastAPI) -> AsyncIterator[None]:
        # listeners do not wait for it: a sound that is not ready yet is rendered when it is requested
        threading.Thread(target=_prepare, args=(sessions,), daemon=True).start()
        yield

    site = FastAPI(
        title=study.title,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        openapi_url="/api/openapi.json",
        lifespan=prepare_in_background,
        version="1",
    )
    site.state.sessions, site.state.token = sessions, token or admin.default_token(store)
    site.state.cookie, site.state.limits = sessions.identifiers.cookie_name(), limits
    site.include_router(listener_api.routes(sessions))
    site.include_router(resume.routes(sessions))
    site.include_router(admin.routes(sessions, site.state.token, limits))
    site.mount("/static", StaticFiles(directory=listener_api.WEB))
    site.add_middleware(RequestChecks, limits=limits, cookie_name=site.state.cookie)
    for kind, handler in HANDLERS.items():
        site.add_exception_handler(kind, handler)
    return site


def _prepare(sessions: Sessions) -> None:
    try:
        sessions.prepare()
    except UserError as error:
        LOG.error("Sounds could not be prepared: %s", error)


def serve(
    study_path: str | Path,
    database_url: str | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    announce: Callable[[FastAPI], None] = lambda site: None,
    **options: Any,
) -> None:
    """Run the server until it is stopped. `announce` is called with the application before the server starts;
    `options` are passed to `app`.

    One process serves a study: it is fast because sessions are in its memory, and hundreds of listeners do
    not use all of one core. The address and scheme forwarded by a proxy on the same machine are trusted.
    """
    import torch
    import uvicorn

    from limen.listening.server.slow_connections import limited_protocol

    # threads that render sounds hold the interpreter's lock: let replies interrupt them often
    sys.setswitchinterval(0.001)
    # rendering a sound must not occupy all cores while replies are waiting
    torch.set_num_threads(1)
    site = app(study_path, database_url, **options)
    # a full garbage collection stops all replies for a considerable part of a second, several times a minute,
    # and frees nothing
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 1000)
    _raise_connection_limit()
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
            http=limited_protocol(site.state.limits, proxies),
        )
    finally:
        site.state.sessions.store.close()


def _raise_connection_limit() -> None:
    """Let the process open as many connections as the system permits, instead of the lower default."""
    with suppress(ImportError, OSError, ValueError):  # not available on every system
        import resource

        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
