"""A study on a server of its own, and somebody in front of its page in a real browser."""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar

import uvicorn
import yaml
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page
from studies import tone, write

from limen.listening.server.app import app
from limen.listening.server.limits import Limits
from limen.listening.server.sessions import Sessions

DESK: dict[str, Any] = {"viewport": {"width": 1100, "height": 900}}
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
PATIENCE_MS = 60_000
"""A loaded machine is slow, not wrong."""


class Served:
    """A server in a thread; `sessions` is what it stores into."""

    def __init__(self, study: Path, limits: Limits | None = None):
        self.site = app(study, limits=limits)
        self.sessions: Sessions = self.site.state.sessions
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._server = uvicorn.Server(uvicorn.Config(self.site, port=self.port, log_level="error"))
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)

    def answers(self) -> list[dict[str, Any]]:
        return self.sessions.store.answers()


class Person:
    """Takes a study."""

    trouble: ClassVar[list[str]] = []
    """Every error and warning of anybody's page, but for the browser's own remark that a request had no
    success."""

    def __init__(self, browser: Browser | BrowserContext, url: str, path: str = "/", **how: Any):
        self.context = (
            browser if isinstance(browser, BrowserContext) else browser.new_context(**(how or DESK))
        )
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("console", self._says)
        self.page.on("pageerror", lambda e: self.trouble.append(str(e)))
        self.page.goto(url + path)
        self.page.locator("main h1").wait_for()

    def _says(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith("Failed to load resource"):
            self.trouble.append(message.text)

    def begin(self) -> "Person":
        self.page.get_by_role("button", name="Begin").click()
        self.page.locator("form").wait_for()
        return self

    @property
    def kind(self) -> str:
        return self.page.locator("form").get_attribute("data-kind") or ""

    @property
    def place(self) -> str:
        return self.page.locator("#count").inner_text()

    def button(self, label: str) -> Locator:
        return self.page.get_by_role("button", name=re.compile(f"^(Play|Stop|Switch to) {label}$"))

    def tile(self, label: str) -> Locator:
        return self.page.locator(".tile").filter(has=self.page.locator(f".name:text-is('{label}')"))

    def hear(self, *labels: str) -> None:
        """Plays sounds to their end, one after another; all of the screen if none is named."""
        self.page.bring_to_front()  # a page behind another is slow
        self.page.get_by_role(
            "button", name="Continue"
        ).wait_for()  # of a page that was loaded again the screen comes a little later
        known = self.page.locator(".tile .name").all_inner_texts()
        for label in labels or known:
            tile = f"document.querySelectorAll('.tile')[{known.index(label)}]"
            # a sound that plays comes to its end first: pressing another one would switch to it
            until(
                self.page,
                f"!document.querySelector('.tile.on') && {tile}.querySelector('.sound').ariaDisabled === "
                "'false'",
            )
            self.button(label).click()
            until(self.page, f"{tile}.querySelector('.state').textContent === 'Heard'")

    def reply(self) -> None:
        """The first choice, a place, a word."""
        for group in self.page.get_by_role("radiogroup").all():
            group.get_by_role("radio").first.check()
        for slider in self.page.get_by_role("slider").all():
            slider.fill("40")
        for field in self.page.locator(".type textarea, .type input").all():
            field.fill("33")

    def press_on(self) -> None:
        self.page.get_by_role("button", name="Continue").click()

    def go_on(self) -> None:
        """Presses the button and waits for what comes next; the right answer, where it is told, is read."""
        before = self.place
        self.press_on()
        until(
            self.page,
            "document.querySelector('.feedback') || document.getElementById('count').textContent !== "
            f"{before!r}",
        )
        if self.page.locator(".feedback").count():
            self.page.get_by_role("button", name="Next").click()

    def answer(self) -> None:
        self.hear()
        self.reply()
        self.go_on()

    @property
    def finished(self) -> bool:
        return self.page.locator("#code").count() == 1

    def kept(self) -> Any:
        """The answer that waits to be acknowledged."""
        return self.page.evaluate("JSON.parse(localStorage.getItem('limen.unsent'))")


def serving(folder: Path, seconds: float) -> Iterator[Callable[..., Served]]:
    """Yields a function that serves a study of the given steps (its sounds last `seconds` by default); stops
    all servers at the end."""
    running: list[Served] = []

    def make(*steps: Any, seconds: float = seconds) -> Served:
        running.append(Served(write(folder, list(steps), seconds=seconds)))
        return running[-1]

    yield make
    for server in running:
        server.stop()
    assert Person.trouble == []


def until(page: Page, condition: str) -> None:
    """Wait for a condition. Playwright's own wait needs eval, which the page's security policy forbids."""
    page.evaluate(
        f"() => new Promise((done) => {{ const look = () => ({condition}) ? done() : setTimeout(look, 20); look(); }})"
    )


def nameless(page: Page) -> list[str]:
    """Controls without a name that a screen reader could say."""
    roles = "button|radio|slider|textbox|checkbox|radiogroup|progressbar|link"
    return re.findall(rf"^\s*- (?:{roles})\b(?! \")[^\n]*", page.locator("body").aria_snapshot(), re.M)


def small(page: Page) -> list[str]:
    """What is to be touched, and is smaller than a fingertip: 44 pixels."""
    touched = "button, .choice, textarea, input[type=text], input[type=range], summary, .repeat"
    return page.evaluate(  # type: ignore[no-any-return]
        """(touched) => [...document.querySelectorAll(touched)].filter((e) => e.checkVisibility())
      .map((e) => [e, e.getBoundingClientRect()])
      .filter(([, r]) => r.height < 44 || r.width < 44)
      .map(([e, r]) => `${e.outerHTML.slice(0, 80)} ${r.width} x ${r.height}`)""",
        touched,
    )


def seed000(folder: Path) -> Path:
    """The template of seed 000's study, with one of its nine experiments: 12 clips, half of them clean, then
    6 pairs."""
    study = yaml.safe_load((files("limen.listening") / "templates" / "seed000.yaml").read_text())
    study["items"] = []
    for k in range(12):
        condition = ("clean", "adversarial")[k % 2]
        tone(folder / f"audio/one{k}.wav", 300 + 20 * k, 0.05 * (k % 2), 0.2, seed=k)
        study["items"].append(
            {
                "id": f"one{k}",
                "files": {condition: f"audio/one{k}.wav"},
                "answer": f"word{k % 4}",
                "factors": {"part": 1},
            }
        )
    for k in range(6):
        pair = {c: f"audio/pair{k}_{c}.wav" for c in ("clean", "adversarial")}
        for noise, file in zip((0.0, 0.05), pair.values(), strict=True):
            tone(folder / file, 500 + 20 * k, noise, 0.2, seed=k)
        study["items"].append({"id": f"pair{k}", "files": pair, "factors": {"part": 2, "loudness": "low"}})
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump(study, sort_keys=False))
    return path
