"""The pages of recognisers in a real browser: transcripts, curves with their noise control, matrices,
targets, sizes, languages."""

import itertools
import re
from pathlib import Path

import pytest
from fabricated_run import Fabricated
from playwright.sync_api import Browser, Locator, Page
from speech_run import (
    NETS,
    SPEECH,
    TARGET,
    curve,
    curve_rows,
    garbled,
    language_rows,
    speech_run,
    text_rows,
    transfer_result,
)
from test_report_page import contrast, opened

from limen.report import build

CONSTRAINED = {"name": "constrained_accuracy", "constraint": "snr", "how": "auto"}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(speech_run(tmp_path_factory.mktemp("speech") / "run"))


@pytest.fixture(scope="module")
def loaded(browser: Browser, report: Path) -> tuple[Page, list[str]]:
    return opened(browser, report)


@pytest.fixture(scope="module")
def page(loaded: tuple[Page, list[str]]) -> Page:
    return loaded[0]


def cells(table: Locator) -> list[list[str]]:
    """Every row of a table as text, the heading first."""
    return table.evaluate(
        "t => [...t.rows].map(r => [...r.cells].map(c => c.textContent.trim().replace(/\\u202f/g, ' ')))"
    )


def region(page: Page, name: str) -> Locator:
    return page.locator(f'[role=region][aria-label="{name}"] table').first


def lines(page: Page, title: str) -> dict[str, tuple[str, list[float]]]:
    """Lines of a chart: name -> classes, and the heights of its points."""
    found = page.evaluate(
        """(title) => { const chart = [...document.querySelectorAll("svg.chart")].find(s => s.querySelector("title").textContent === title);
      return [...chart.querySelectorAll("g.series")].map(g => [g.querySelector("title").textContent, g.getAttribute("class"),
        g.querySelector(".line").getAttribute("d")]); }""",
        title,
    )
    return {name: (kind, [float(y) for y in re.findall(r",([\d.]+)", path)]) for name, kind, path in found}


def test_nothing_goes_wrong_and_the_page_never_scrolls_sideways(loaded: tuple[Page, list[str]]) -> None:
    page, trouble = loaded
    assert trouble == []
    for width in (360, 800, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))")
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))
    assert "NaN" not in page.evaluate("[...document.querySelectorAll('svg')].map(s => s.outerHTML).join('')")


def test_an_example_shows_what_was_said_wanted_and_heard(browser: Browser, tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    said, heard = ["turn the light off"], ["Turn a light, off now"]
    run.cell(
        **SPEECH,
        attack="cw",
        goal={"name": "transcript", "text": TARGET},
        rows=text_rows(said, heard, TARGET),
        examples=1,
    )
    page, trouble = opened(browser, build(run.close()))
    assert trouble == []
    shown = page.evaluate(
        """[...document.querySelectorAll('article .compared div')].map(
      d => [...d.children].map(e => e.textContent.trim().replace(/\\s+/g, ' ')))"""
    )
    assert shown == [
        ["reference", "turn the light off"],
        ["target", "open the door"],
        ["clean transcript", "turn the light off no error"],
        ["adversarial transcript", "Turn the a light, off now 1 wrong, 1 added"],
        ["against the target", "Turn a open light, the off door now 3 wrong, 2 added"],
    ]
    marked = page.locator("article .compared dd").nth(3)
    assert marked.locator(".swap del").inner_text() == "the"
    assert marked.locator(".swap").get_attribute("title") == "“the” was transcribed as “a”"
    assert marked.locator("ins[title='“now” was added']").inner_text() == "now"
    shape = "e => getComputedStyle(e).textDecorationLine + ' ' + getComputedStyle(e).textDecorationStyle"
    # three kinds of error, three shapes: no colour needed
    assert [marked.locator(mark).evaluate(shape) for mark in (".swap del", ".swap ins", "ins[title]")] == [
        "line-through solid",
        "underline solid",
        "underline double",
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_marks_and_matrices_are_readable_in_both_schemes(browser: Browser, report: Path, scheme: str) -> None:
    page, _ = opened(browser, report, scheme=scheme)
    assert min(contrast(page, s) for s in (".swap ins", ".swap del", "td > ins", ".errors")) >= 4.5
    shade = """(cell) => { const c = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
      const light = (css) => { c.fillStyle = css; c.fillRect(0, 0, 1, 1); const v = [...c.getImageData(0, 0, 1, 1).data].slice(0, 3)
        .map(x => x / 255).map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
        return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
      const s = getComputedStyle(cell), a = light(s.color), b = light(s.backgroundColor);
      return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05); }"""
    shares = page.evaluate(f"[...document.querySelectorAll('table.heat td[style]')].map({shade})")
    assert min(shares) >= 4.5


def test_the_transcript_table_sorts_by_a_press_on_its_heading(page: Page) -> None:
    table = region(page, "Transcripts: ctc_small · undefended · cw")
    head, *rows = cells(table)
    assert head == [
        "Sample",
        "Reference",
        "Clean transcript",
        "Target",
        "Adversarial transcript",
        "WER",
        "SNR, dB",
        "Success",
    ]
    assert len(rows) == 20
    snr = table.locator("thead button").nth(6)
    snr.click()
    snr.click()
    assert table.locator("thead th").nth(6).get_attribute("aria-sort") == "descending"
    values = [float(row[6]) for row in cells(table)[1:]]
    assert values == sorted(values, reverse=True) == [49.0 - i for i in range(20)]
    table.locator("thead button").nth(0).click()
    assert [row[0] for row in cells(table)[1:]] == [f"clip{i:02d}" for i in range(20)]
    assert cells(table)[1][4] == TARGET  # marked against the target: nothing to mark
    assert table.locator("tbody tr").first.locator("td").nth(3).locator("ins, del").count() == 0


def test_the_perturbation_can_be_heard_louder(page: Page) -> None:
    group = page.locator(".clip .trio").first
    page.locator(".loop").first.check()
    louder = group.locator(".louder")
    assert (
        louder.get_attribute("data-gain") == "64"
    )  # the change stands 38 dB below: 64 times it is still below the clip, 128 is not
    louder.click()
    assert louder.get_attribute("aria-pressed") == "true"
    assert group.locator(".one.on").get_attribute("data-role") == "perturbation"
    louder.click()
    assert louder.get_attribute("aria-pressed") == "false"
    group.locator(".one.on .play").click()
    assert group.locator(".one.on").count() == 0
    assert group.locator(".one[data-role=clean] .louder, .one[data-role=adversarial] .louder").count() == 0


def test_curves_show_word_errors_with_the_noise_beside_them(page: Page) -> None:
    drawn = lines(page, "Word error rate against snr_db: ctc_small, undefended")
    assert {name: kind for name, (kind, _) in drawn.items()} == {
        "pgd": "series s0",
        "random_noise": "series control dashed",
    }
    heights = drawn["pgd"][1]
    assert heights == sorted(heights)  # fewer errors at larger SNR: lower on the page
    beside = lines(page, "Word error rate against snr_db: pgd")
    assert set(beside) == {f"{net}, undefended" for net in NETS} | {
        f"{net}, undefended: random_noise" for net in NETS
    }
    assert beside["deepspeech2, undefended: random_noise"][0] == "series s1 dashed"
    captions = " ".join(page.locator("figcaption").all_inner_texts())
    assert "No noise control" not in captions
    assert "pgd stopped at the first wrong word" in captions


def test_a_constrained_curve_has_its_own_noise_and_the_clean_rate_as_a_line(
    browser: Browser, tmp_path: Path
) -> None:
    run = Fabricated(tmp_path / "run")
    for net, noise in (("with", 0.3), ("without", None)):
        run.cell(
            **SPEECH,
            net=net,
            attack="pgd",
            budget={"name": "snr", "snr_db": 30},
            task=CONSTRAINED,
            rows=curve_rows(),
            result=curve(15.0, noise, top=0.9),
            examples=0,
        )
    page, trouble = opened(browser, build(run.close()))
    assert trouble == []
    drawn = lines(page, "Word error rate against snr_db: with, undefended")
    assert set(drawn) == {"pgd", "gaussian noise"}
    assert drawn["gaussian noise"][0] == "series control dashed"
    top, base = 14.0, 210.0  # a chart of 250 points from 0 to 100 %
    assert drawn["pgd"][1][0] == pytest.approx(base - 0.9 * (base - top), abs=0.1)
    assert drawn["gaussian noise"][1][0] == pytest.approx(base - 0.34 * (base - top), abs=0.1)
    rule = page.locator("svg.chart line.rule").first.get_attribute("y1")
    assert float(rule) == pytest.approx(base - (base - top) / 7, abs=0.1)  # one clean word in seven is wrong
    assert set(lines(page, "Word error rate against snr_db: without, undefended")) == {"pgd"}
    assert "No noise control for without, undefended" in page.locator("figcaption").first.inner_text()


def test_classifiers_get_the_noise_beside_their_curve_too(browser: Browser, tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    values = [0.1, 0.2, 0.4]
    noise = {
        "name": "gaussian noise",
        "accuracy": [1.0, 0.9, 0.8],
        "low": [0.9, 0.8, 0.7],
        "high": [1.0, 1.0, 0.9],
    }
    result = {
        "constraint": "l2",
        "values": values,
        "accuracy": [0.8, 0.4, 0.0],
        "low": None,
        "high": None,
        "n": 50,
        "control": noise,
    }
    run.cell(
        kind="picture",
        attack="pgd",
        task={"name": "constrained_accuracy"},
        result=result,
        rows=[],
        examples=0,
    )
    page, trouble = opened(browser, build(run.close()))
    assert trouble == []
    drawn = lines(page, "Accuracy against l2: keyword_cnn, undefended")
    assert drawn["gaussian noise"][1] == pytest.approx([14.0, 33.6, 53.2], abs=0.1)
    assert "No noise control" not in page.locator("figcaption").first.inner_text()


def test_a_matrix_has_the_victims_down_the_proxies_across_and_marks_the_same_net(page: Page) -> None:
    table = region(page, "Targeted success, by words: cw")
    assert cells(table) == [
        ["attacked ↓ · proxy →", "ctc_small", "deepspeech2", "whisper tiny.en"],
        ["ctc_small", "100.0", "12.0", "0.0"],
        ["deepspeech2", "12.0", "100.0", "12.0"],
        ["whisper tiny.en", "0.0", "12.0", "100.0"],
    ]
    same = table.locator("td.same")
    assert same.all_inner_texts() == ["100.0"] * 3
    assert (
        same.first.evaluate("e => getComputedStyle(e).fontStyle + ' ' + getComputedStyle(e).outlineStyle")
        == "italic solid"
    )
    assert (
        table.locator("td").nth(1).get_attribute("title")
        == "attack computed on deepspeech2, evaluated on ctc_small: 12.0\u202f%"
    )
    shades = (
        table.locator("tbody tr")
        .first.locator("td")
        .evaluate_all("t => t.map(e => getComputedStyle(e).backgroundColor)")
    )
    assert len(set(shades)) == 3
    assert page.locator("table.heat").count() == 6
    assert table.locator("th[scope=row]").count() == table.locator("tbody tr").count()


def test_surrogates_stand_at_the_head_of_their_columns_and_gaps_stay_empty(
    browser: Browser, tmp_path: Path
) -> None:
    run = Fabricated(tmp_path / "run")
    for proxy, victims in (("a + b", {"a": (0.9, 1.0), "c": (0.2, 0.5)}), ("c", {"c": (1.0, 1.0)})):
        surrogate = {"models": [{"name": name} for name in proxy.split(" + ")]}
        run.cell(
            **SPEECH,
            net="a",
            attack=f"cw on {proxy}",
            attack_name="cw",
            surrogate=surrogate,
            task={"name": "transfer"},
            examples=0,
            result=transfer_result(proxy, victims),
            rows=text_rows(["one"], ["two"]),
        )
    page, trouble = opened(browser, build(run.close()))
    assert trouble == []
    table = region(page, "Targeted success, by words: cw")
    assert cells(table) == [
        ["attacked ↓ · proxy →", "a + b", "c"],
        ["c", "20.0", "100.0"],
        ["a", "90.0", "–"],
    ]
    assert table.locator("td.same").all_inner_texts() == ["100.0", "90.0"]
    assert "a and b" in page.locator(".threats").inner_text()


def test_targeted_attacks_stand_in_a_table_of_their_own(browser: Browser, tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    said = ["one two three four"] * 4
    run.cell(
        **SPEECH,
        net="lstm",
        rows=text_rows(said, ["one two three four"] * 3 + ["one two three five"]),
        examples=0,
    )
    heard = [TARGET, TARGET, "open a door", "one two three four"]
    run.cell(
        **SPEECH,
        net="lstm",
        attack="cw",
        goal={"name": "transcript", "text": TARGET},
        rows=text_rows(said, heard, TARGET),
        examples=0,
    )
    run.cell(**SPEECH, net="lstm", attack="pgd", rows=text_rows(said, heard), examples=0)
    page, _ = opened(browser, build(run.close()))
    head, *rows = cells(region(page, "Targeted attacks"))
    assert head == [
        "Model",
        "Defence",
        "Attack",
        "Clean WER",
        "WER to the target",
        "SNR, dB, median",
        "SNR of successes, median",
        "Success",
        "n",
    ]
    # 1 of 16 clean words; 0 + 0 + 1 + 4 errors to the target in 12 words; SNR 30 ... 33, the first two
    # succeed
    assert rows == [
        ["lstm", "none", "cw", "6.2 %", "41.7 %", "31.5", "30.5", "50.0 % (15.0–85.0), 2 of 4", "4"]
    ]


def test_models_are_compared_by_size(page: Page) -> None:
    head, *rows = cells(region(page, "Models by size"))
    assert head[:3] == ["Model", "Parameters", "WER, clean"]
    assert [row[:2] for row in rows] == [
        ["ctc_small", "412 k"],
        ["deepspeech2", "5.3 M"],
        ["whisper tiny.en", "39 M"],
    ]
    assert head.index("WER, pgd, snr_db 30") > 0
    drawn = lines(page, "Word error rate against parameters")
    assert "clean" in drawn
    assert drawn["random_noise, snr_db 30"][0] == "series control dashed"
    heights = drawn["pgd, snr_db 30"][1]
    assert heights == sorted(heights)  # larger models here do better: their points stand lower on the page


def test_language_confusion_is_told_by_true_language(browser: Browser, tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    here = {**SPEECH, "net": "whisper base", "budget": {"name": "snr", "snr_db": 45}, "examples": 0}
    run.cell(**here, attack="pgd", goal={"name": "language", "target": "en"}, rows=language_rows("en", 0.7))
    page, trouble = opened(browser, build(run.close()))
    assert trouble == []
    head, *rows = cells(region(page, "Language confusion, by true language"))
    assert head == [
        "Cell",
        "True language",
        "n",
        "Detected clean",
        "Flipped",
        "Mostly detected as",
        "WER clean",
        "WER attacked",
    ]
    assert [row[1:6] for row in rows] == [
        ["it", "10", "100.0 %", "70.0 %", "en (70.0 %)"],
        ["cs", "10", "100.0 %", "70.0 %", "en (70.0 %)"],
        ["en", "10", "100.0 %", "–", "en (100.0 %)"],
    ]
    said, lost = garbled(0.5, 10)
    wrong = sum(
        a != b for x, y in zip(said, lost, strict=True) for a, b in zip(x.split(), y.split(), strict=True)
    )
    words = sum(len(x.split()) for x in said)
    assert rows[0][6:] == ["0.0 %", f"{100 * wrong / words:.1f} %"]
    assert rows[2][7] == "0.0 %"  # English taken for English loses nothing
    marks = page.locator("svg.chart .dots title").all_text_contents()
    assert f"it, pgd to en: {100 * wrong / words:.0f} %" in marks
    assert "taken for the language “en”" in page.locator(".threats").inner_text()


def test_ids_may_name_the_language_where_the_rows_do_not(browser: Browser, tmp_path: Path) -> None:
    run = Fabricated(tmp_path / "run")
    rows = [
        {k: v for k, v in row.items() if k not in ("language", "words", "word_errors")}
        for row in language_rows("sr", 1.0)
    ]
    run.cell(**SPEECH, attack="pgd", goal={"name": "language", "target": "sr"}, rows=rows, examples=0)
    page, _ = opened(browser, build(run.close()))
    found = cells(region(page, "Language confusion, by true language"))[1:]
    assert [row[1] for row in found] == ["it", "cs", "en"]
    assert found[0][6] == "0.0 %"
    assert float(found[0][7].split()[0]) > 30
