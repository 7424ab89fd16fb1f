"""The results page of a listening study: escaped, complete and honest; it opens in a real browser without
asking anyone."""

import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import studied
from playwright.sync_api import Browser, Page

from limen.listening.analysis.analyse import analyse
from limen.report.study.page import build_study, sentences

ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
]
VOID = {"meta", "link", "img", "br", "hr", "input"}
Built = tuple[Path, Any, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    plan = studied.study()
    table = studied.taken(plan)
    results = analyse(plan, table, recorded=plan.fingerprint())
    return build_study(results, table, tmp_path_factory.mktemp("study") / "results.html"), results, table


def opened(browser: Browser, path: Path, width: int = 1280, scheme: Any = "light") -> tuple[Page, list[str]]:
    page = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme).new_page()
    page.set_default_timeout(120_000)  # a loaded machine is slow, not wrong
    trouble: list[str] = []
    page.on(
        "console",
        lambda message: trouble.append(message.text) if message.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on(
        "request",
        lambda request: (
            trouble.append(f"asked: {request.url[:80]}") if request.url.startswith(("http", "ws")) else None
        ),
    )
    page.goto(path.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    return page, trouble


def words(path: Path) -> str:
    return re.sub(
        r"\s+",
        " ",
        html.unescape(path.read_text(encoding="utf-8")).replace("\u202f", " ").replace("\u2060", ""),
    )


class Balanced(HTMLParser):
    """Every tag that opens closes, in order; ids are unique."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [str(value) for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag


def test_the_page_is_well_formed_and_needs_no_other_file(built: Built) -> None:
    text = built[0].read_text(encoding="utf-8")
    parser = Balanced()
    parser.feed(text)
    assert parser.open == []
    assert len(set(parser.ids)) == len(parser.ids)
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", text)
    assert "None" not in re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert "nan" not in re.findall(r">([^<]*)<", text)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_it_opens_without_an_error_and_hostile_words_stay_words(
    browser: Browser, built: Built, width: int, scheme: str
) -> None:
    page, trouble = opened(browser, built[0], width, scheme)
    assert trouble == []
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert studied.NASTY in page.locator("h1").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_trial_type_has_its_part_with_a_chart_and_a_table(browser: Browser, built: Built) -> None:
    page, _ = opened(browser, built[0])
    titles = page.locator("main > section > h2").all_inner_texts()
    for title in (
        "ABX",
        "Naturalness",
        "Identification",
        "MUSHRA",
        "Preference",
        "Transcription",
        "Same or different",
    ):
        assert title in titles
        part = page.locator("section", has=page.locator("h2", has_text=re.compile(f"^{title}$")))
        assert part.locator("table").count() >= 1
        assert part.locator("svg.chart").count() >= (0 if title == "Transcription" else 1)
    charts = page.locator("svg.chart")
    boxes = [charts.nth(k).bounding_box() for k in range(charts.count())]
    assert all(box and box["width"] > 100 and box["height"] > 30 for box in boxes)


def test_text_of_a_chart_does_not_leave_it(browser: Browser, built: Built) -> None:
    page, _ = opened(browser, built[0])
    outside = page.evaluate("""() => [...document.querySelectorAll("svg.chart")].flatMap((svg) => {
      const frame = svg.getBoundingClientRect();
      const out = (b) => b.right > frame.right + 40 || b.left < frame.left - 40;
      return [...svg.querySelectorAll("text")].filter((t) => out(t.getBoundingClientRect())).map((t) => t.textContent);
    })""")
    assert outside == []


def test_it_says_who_was_left_out_and_why(built: Built) -> None:
    path, results, _ = built
    text = words(path)
    assert len(results.exclusions.excluded) >= 2
    for e in results.exclusions.excluded:
        assert e.reason in text
        assert e.evidence in text
    assert "did not reach the end" in text
    assert "They are the rules recorded before the first answer." in text
    assert f"{results.exclusions.kept} listeners" in text


def test_the_first_screen_names_each_finding_with_its_number(built: Built) -> None:
    path, results, table = built
    lead = words(path).split("<nav")[0]
    abx = next(c for c in results.of("choices") if c.trial == "abx").shares[0]
    assert f"ABX: {abx.right} of {abx.n} answers were right" in lead
    for axis in results.of("thresholds")[0].axes:
        assert (
            f"Same or different, {axis.axis}: a difference is noticed half the time at a strength of "
            f"{axis.threshold.value:.1f}" in lead
        )
    assert "MUSHRA, mean ratings:" in lead
    assert "was preferred to" in lead
    for said in sentences(results, table):  # what the command line prints
        assert re.sub(r"\s+", " ", said.replace("\u202f", " ").replace("\u2060", "")) in lead


def test_hypotheses_are_shown_with_their_corrected_p_and_answer(built: Built) -> None:
    text = words(built[0])
    for h in built[1].hypotheses:
        assert h.name in text
        assert h.estimate in text
    assert "of 4 hypotheses fixed before the first answer" in text


def test_methods_and_citation_are_there(built: Built) -> None:
    text = words(built[0])
    for said in (
        "Clopper-Pearson",
        "Two one-sided tests over listeners and items",
        "Satterthwaite",
        "Freeman-Halton",
        "Bradley-Terry",
        "Krippendorff",
        built[1].fingerprint,
    ):
        assert said in text


def test_a_study_changed_after_its_first_answer_is_called_out(tmp_path: Path) -> None:
    plan = studied.study(studied.STEPS[:1], nasty=False, hypotheses=[])
    table = studied.taken(plan, 4)
    path = build_study(analyse(plan, table, recorded="0" * 64), table, tmp_path / "a.html")
    assert "The study file was changed after the first answer." in words(path)


def test_a_study_that_nobody_took_and_one_without_anyone_left_have_pages(
    browser: Browser, tmp_path: Path
) -> None:
    plan = studied.study(nasty=False)
    path, trouble = opened(browser, build_study(analyse(plan, []), [], tmp_path / "empty.html"))
    assert trouble == []
    assert "No answer is analysed yet." in path.inner_text("body")
    strict = studied.study(nasty=False, exclude=[{"name": "too_fast", "seconds": 1000}])
    table = studied.taken(strict, 3)
    page, trouble = opened(browser, build_study(analyse(strict, table), table, tmp_path / "none.html"))
    assert trouble == []
    assert "Every listener is excluded" in page.inner_text("body")
