"""The page in a real browser: nothing asked of the network, no error, every player and picture works, on a
desk and on a phone."""

import itertools
from pathlib import Path

import pytest
from fabricated_run import Fabricated, full_run
from playwright.sync_api import Browser, Page

from limen.report import build

NASTY = '<script>window.hacked=1</script><img src=x onerror="window.hacked=1">"\'&é漢字🎧'


@pytest.fixture(scope="module")
def page(browser: Browser, report: Path) -> Page:
    """The full report on a desk, for tests that only look."""
    return opened(browser, report)[0]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(full_run(tmp_path_factory.mktemp("full") / "run"))


def opened(browser: Browser, path: Path, width: int = 1280, scheme: str = "light") -> tuple[Page, list[str]]:
    """The page, and everything that went wrong while it loaded."""
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()  # type: ignore[arg-type]
    page.set_default_timeout(120_000)  # a loaded machine is slow, not wrong
    trouble: list[str] = []
    page.on(
        "console",
        lambda message: trouble.append(message.text) if message.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("requestfailed", lambda request: trouble.append(f"failed: {request.url[:80]}"))
    page.on(
        "request",
        lambda request: (
            trouble.append(f"asked: {request.url[:80]}") if request.url.startswith(("http", "ws")) else None
        ),
    )
    page.goto(path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    return page, trouble


def test_nothing_goes_wrong_and_nothing_is_asked_of_the_network(browser: Browser, report: Path) -> None:
    page, trouble = opened(browser, report)
    assert trouble == []
    assert page.title() == "demo · Limen report"
    assert page.locator(".tile").count() == 3


def test_a_run_of_36_cells_stays_below_8_megabytes(report: Path) -> None:
    assert report.stat().st_size < 8e6


def test_every_player_decodes_and_every_picture_shows(page: Page) -> None:
    # one after another: Chromium refuses more than a few dozen open players
    durations = page.evaluate("""async () => {
      const out = [];
      for (const audio of document.querySelectorAll("audio")) {
        const copy = new Audio();
        out.push(await new Promise((done) => {
          copy.onloadedmetadata = () => done(copy.duration);
          copy.onerror = () => done(-1);
          copy.src = audio.src;
        }));
        copy.removeAttribute("src");
        copy.load();
      }
      return out;
    }""")
    assert len(durations) >= 60
    assert durations == pytest.approx([1.0] * len(durations), abs=1e-3)
    widths = page.evaluate("[...document.images].map(i => i.complete ? i.naturalWidth : 0)")
    assert len(widths) > 100
    assert min(widths) > 0
    assert page.evaluate("getComputedStyle(document.querySelector('img.tiny')).imageRendering") == "pixelated"


def until(page: Page, condition: str) -> None:
    """Wait for a condition. Playwright's own wait needs eval, which the page's security policy forbids."""
    page.evaluate(
        f"() => new Promise((done) => {{ const look = () => ({condition}) ? done() : requestAnimationFrame(look); look(); }})"
    )


def test_keys_play_stop_and_switch_between_clean_and_adversarial(browser: Browser, report: Path) -> None:
    page, trouble = opened(browser, report)
    page.locator(".loop").first.check()
    group = page.locator(".clip .trio").first
    heard = lambda: group.locator(".one.on").get_attribute("data-role")
    group.locator(".one[data-role=clean] .play").focus()
    page.keyboard.press("Space")
    until(
        page,
        "document.querySelector('.one.on .head') && parseFloat(document.querySelector('.one.on "
        ".head').style.left) > 5",
    )
    assert heard() == "clean"
    page.keyboard.press("ArrowRight")
    assert heard() == "adversarial"
    assert group.locator("[aria-pressed=true]").inner_text() == "adversarial"
    assert page.evaluate("document.activeElement.innerText") == "adversarial"
    page.keyboard.press("ArrowLeft")
    assert heard() == "clean"
    page.keyboard.press("Space")
    assert group.locator(".one.on").count() == 0
    page.locator(".loop").first.uncheck()
    group.locator(".one[data-role=adversarial] .play").click()
    until(
        page, "!document.querySelector('.one.on')"
    )  # without repeat it stops by itself at the end of the clip
    assert group.locator("[aria-pressed=true]").count() == 0
    assert trouble == []


def test_the_page_never_scrolls_sideways(browser: Browser, report: Path) -> None:
    page, _ = opened(browser, report, 320)
    for width in (320, 360, 400, 768):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        # what is wider than the screen scrolls inside its own box
        outside = page.evaluate(
            """(width) => [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > width + 1
            && !e.closest(".scroll, pre") && getComputedStyle(e).position !== "absolute").map((e) => e.outerHTML.slice(0, 80))""",
            width,
        )
        assert outside == []


def test_headings_descend_by_one_and_every_control_can_be_focused(page: Page) -> None:
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    unreachable = page.evaluate("""[...document.querySelectorAll("a, button, summary, input, .scroll, pre")].filter((e) => {
      e.focus(); return e.offsetParent !== null && document.activeElement !== e; }).map((e) => e.outerHTML.slice(0, 90))""")
    assert unreachable == []
    unnamed = page.evaluate("""[...document.querySelectorAll("button, a, img, [role=region]")].filter((e) =>
      !(e.innerText || e.alt || e.getAttribute("aria-label"))).map((e) => e.outerHTML.slice(0, 90))""")
    assert unnamed == []
    targets = page.evaluate(
        "[...document.querySelectorAll('a[href^=\"#\"]')].filter(a => "
        "!document.querySelector(a.getAttribute('href'))).length"
    )
    assert targets == 0


def test_ids_are_unique_and_charts_have_titles(page: Page) -> None:
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    assert page.evaluate(
        "[...document.querySelectorAll('svg.chart')].every(s => ['title', 'desc'].every(n => "
        "s.querySelector(n).textContent))"
    )
    assert page.locator("svg.chart").count() >= 10
    assert "NaN" not in page.evaluate("[...document.querySelectorAll('svg')].map(s => s.outerHTML).join('')")


def test_dark_and_light_follow_the_system_until_the_reader_chooses(browser: Browser, report: Path) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    dark, _ = opened(browser, report, scheme="dark")
    light, _ = opened(browser, report, scheme="light")
    assert dark.evaluate(paper) != light.evaluate(paper)
    night = dark.evaluate(paper)
    light.locator("#theme").click()
    assert light.evaluate(paper) == night
    light.emulate_media(media="print")
    assert light.evaluate(paper) != night


def contrast(page: Page, selector: str) -> float:
    """WCAG contrast of an element's text against the page."""
    return page.evaluate(
        """(selector) => {
      const shade = (css) => { const c = document.createElement("canvas").getContext("2d"); c.fillStyle = css; c.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...c.getImageData(0, 0, 1, 1).data].map((v) => v / 255)
          .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
      const a = shade(getComputedStyle(document.querySelector(selector)).color), b = shade(getComputedStyle(document.body).backgroundColor);
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }""",
        selector,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_both_schemes(browser: Browser, report: Path, scheme: str) -> None:
    page, _ = opened(browser, report, scheme=scheme)
    assert (
        min(
            contrast(page, s)
            for s in ("p.lede", ".muted", ".note", ".tag", "nav a", ".answer.wrong", ".pass .verdict")
        )
        >= 4.5
    )


def test_ids_and_errors_are_text_never_markup(browser: Browser, tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run", name="nasty")
    run.cell(
        net=NASTY,
        defense=NASTY,
        attack=NASTY,
        budget={"name": "peak_db", "peak_db": -30},
        ids=[NASTY, "../../etc/passwd", "{{ 7*7 }}"],
        n=24,
        rate=0.3,
    )
    run.cell(
        net="tiny_ctc",
        output="transcript",
        attack="pgd",
        goal={"name": "transcript", "text": NASTY},
        n=10,
        rate=0.2,
    )
    run.cell(net=NASTY, error=f"Boom </pre></script>{NASTY} \ud800")
    page, trouble = opened(browser, build(run.close()))
    assert trouble == []
    assert page.evaluate("window.hacked") is None
    assert NASTY in page.locator("article .id").first.inner_text()
    assert "{{ 7*7 }}" in page.locator("main").inner_text()
    assert "</pre></script>" in page.locator(".failed pre").inner_text()
    assert NASTY in page.locator(".threats").nth(1).inner_text()


def test_transcripts_show_what_was_misheard_word_by_word(page: Page) -> None:
    assert page.locator(".compared ins").count() + page.locator(".compared del").count() > 0
    assert "open the door" in page.locator(".threats").nth(3).inner_text()


def test_small_and_broken_runs_open_too(browser: Browser, tmp_path: Path) -> None:
    one = Fabricated(tmp_path / "one")
    one.cell(kind="picture", n=1, examples=1, attack="fgsm", budget={"name": "linf", "eps": 0.1})
    none = Fabricated(tmp_path / "none")
    none.cell(examples=0, n=5)
    failed = Fabricated(tmp_path / "failed")
    failed.cell(error="ValueError: no such file")
    failed.cell(error="")
    empty = Fabricated(tmp_path / "empty")
    unusual = Fabricated(tmp_path / "unusual")
    unusual.cell(
        attack="pgd",
        rows=[
            {
                "id": "a",
                "label": "yes",
                "adversarial_prediction": "no",
                "correct": None,
                "snr_db": float("inf"),
                "peak_db": None,
            }
        ],
        examples=0,
    )
    unusual.cell(
        task={"name": "train"},
        rows=[],
        examples=0,
        task_index=1,
        result={
            "history": [
                {"epoch": 1, "loss": 2.0, "valid_accuracy": 0.4},
                {"epoch": 2, "loss": 1.0, "valid_accuracy": 0.8},
            ],
            "weights": "weights.safetensors",
        },
    )
    for run in (one, none, failed, empty, unusual):
        page, trouble = opened(browser, build(run.close()), 360)
        assert trouble == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        assert page.locator("#environment").count() == 1
