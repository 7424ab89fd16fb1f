"""The results page of a listening study: one file that needs nothing else. First what was found, then how
sure that is, then everything."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from limen.listening.analysis.columns import ANSWERS
from limen.listening.analysis.result_types import Choices, Preference, Rated, Thresholds, Transcriptions
from limen.listening.analysis.results import Results
from limen.report.formatting import duration, fmt, many
from limen.report.html import assets, environment, write_page
from limen.report.study import figures, people, tables
from limen.report.study import sentences as words

Rows = Sequence[Mapping[str, Any]]

SHOUT = "SIMULATED ANSWERS"
METHODS = {
    "Over listeners and items": "Answers of one listener resemble each other, and so do answers to one item. "
    "Variances of both are estimated by the method of moments (where everyone hears everything: the quasi-F "
    "of Clark 1973), degrees of freedom by Satterthwaite. A share is then judged by a score statistic "
    "against Student’s t, the same for interval and tests: the 95 % interval holds what the two-sided test "
    "does not reject, the 90 % interval what the one-sided tests do not. In simulated studies of many "
    "designs with five items or more these tests, at 5 %, reject what is true in 3 to 6 %.",
    "Against chance": "One-sided (better than guessing) and two-sided, over listeners and items.",
    "If answers were independent": "Clopper-Pearson intervals, exact binomial tests, and of ratings the "
    "exact test of two distributions (Freeman-Halton): what they would say if the answers of one listener, "
    "and to one item, were no more alike than others. No verdict is from them.",
    "Equivalence": "Two one-sided tests over listeners and items: whether the share lies within the bound of "
    "chance. Only this can say “not heard”; a large p against chance cannot. It is about the mean over "
    "listeners, so it is called inaudible only if few may hear it.",
    "Who may hear it": "A listener who hears it detects it in 80 % of trials and guesses in the others. From "
    "how many listeners did that well, a 95 % upper bound of their share among all listeners follows "
    "(Clopper-Pearson), if nobody does worse than guess.",
    "d′ and bias": "Signal detection theory, differencing model (every trial brings another clip); shares "
    "with Hautus’s log-linear correction; its interval is that of the share of right answers, over listeners "
    "and items, on the scale of d′. Below chance d′ is negative, so that its mean is 0 where nothing is "
    "heard; “from 0 up” has 0 there and is too high on average. Bias c is 0 where neither answer is "
    "preferred.",
    "Ratings": "Means and their differences over listeners and items, with Student’s t; if all listeners "
    "find the same difference, a sign test of the listeners.",
    "MUSHRA": "Means and differences from the hidden reference over listeners and items, Holm-corrected; "
    "beside them Wilcoxon’s signed-rank test over listeners, which takes the items as the only ones there "
    "are.",
    "Preference": "Share of those who chose, over listeners and items, ties left out; Bradley-Terry scale, a "
    "tie half a win for each, with intervals from drawing listeners, of these items.",
    "Transcription": "Share of answers that are right word for word, and all word errors over all words said "
    "(the mean of what each answer adds to this ratio), both over listeners and items.",
    "Thresholds": "A cumulative Gaussian with false alarms and lapses, fitted to each listener and axis on a "
    "grid (flat priors); the study’s threshold is the mean of the population, every listener entering with "
    "their whole likelihood; credible intervals, of these items. The band of a curve is that of the "
    "threshold. False alarms: a share over listeners and items.",
    "Mixed model": "Logistic regression of right answers with random intercepts of listeners and items; it "
    "describes, and no verdict is from it.",
    "Agreement": "Krippendorff’s alpha between listeners who judged the same item and condition: 1 is "
    "perfect, 0 is chance. Intervals come from drawing items, of these listeners.",
    "Several questions": "Holm’s correction over all questions of the study file.",
}


def build_study(results: Results, rows: Rows, path: str | Path) -> Path:
    """Write the page of `analyse`'s results and return its path; `rows` are the answers they come from."""
    return write_page(Path(path), environment().get_template("study.html.j2").render(_context(results, rows)))


def sentences(results: Results) -> list[str]:
    """What was found, as the first screen of the page says it."""
    told = [f"{SHOUT}: {warning}"] if (warning := words.simulated(results)) else []
    return [
        *told,
        words.who(results),
        *(" ".join(found) for part in results.parts if (found := words.found(results, part))),
    ]


def _context(results: Results, rows: Rows) -> dict[str, Any]:
    parts = _parts(results, rows)
    used = _methods(results)
    return {
        "name": results.study,
        "title": results.title,
        **assets(),
        "dates": " to ".join(dict.fromkeys(d[:10] for d in (results.first, results.last) if d)),
        "who": words.who(results),
        "alarm": _alarm(results),
        "simulated": words.simulated(results),
        "found": [p["found"] for p in parts if p["found"]] or [["No answer counts yet."]],
        "hypotheses": people.hypotheses(results),
        "parts": parts,
        "excluded": people.excluded(results),
        "playback": _playback(results),
        "times": people.times(results),
        "implausible": people.implausible(results),
        "people": people.people(results),
        "methods": [(k, v) for k, v in METHODS.items() if k in used],
        "notes": results.notes,
        "facts": _facts(results, rows),
        "cite": words.cite(results),
        "columns": [(name, column.meaning) for name, column in ANSWERS.items()],
        "count": fmt(len(rows), "n"),
    }


def _alarm(results: Results) -> tuple[str, str] | None:
    out = results.exclusions
    if out.same is False:
        return (
            "The study file was changed after the first answer.",
            f"Recorded: {str(out.recorded)[:16]}…, now: {out.fingerprint[:16]}…. Rules and questions are no "
            "longer those fixed beforehand.",
        )
    if out.listeners and not out.kept:
        return (
            "Every listener is left out by the rules of the study file.",
            "There is nothing to report; the reasons stand below.",
        )
    return None


def _parts(results: Results, rows: Rows) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for part in results.parts:
        name = words.name_of(part.kind)
        section = {
            "id": f"part-{len(out) + 1}",
            "title": name,
            "intro": [],
            "figures": [],
            "tables": [],
            "notes": [],
        }
        out.append(
            section | {"found": words.found(results, part)} | _FILL[type(part)](results, part, name, rows)
        )
    return out


def _choices(results: Results, part: Choices, name: str, rows: Rows) -> dict[str, Any]:
    key = words.main_key(results, part)
    whole = part.shares[0]
    return {
        "intro": [
            f"{many(whole.n, 'answer')} of {many(whole.listeners, 'listener')} to "
            f"{many(whole.items, 'item')}."
        ],
        "figures": [
            *figures.shares(part, name),
            *figures.confidence(part, name, key),
            *figures.confusions(part, name),
        ],
        "tables": tables.choices(part),
        "notes": tables.notes(part),
    }


def _rated(results: Results, part: Rated, name: str, rows: Rows) -> dict[str, Any]:
    return {
        "figures": figures.ratings(part, name, rows),
        "tables": tables.rated(part),
        "notes": [words.agreement(part.agreement)] if part.agreement.value is not None else [],
    }


def _preference(results: Results, part: Preference, name: str, rows: Rows) -> dict[str, Any]:
    return {"figures": figures.worth(part, name), "tables": tables.preference(part)}


def _transcriptions(results: Results, part: Transcriptions, name: str, rows: Rows) -> dict[str, Any]:
    return {"tables": tables.transcriptions(part)}


def _thresholds(results: Results, part: Thresholds, name: str, rows: Rows) -> dict[str, Any]:
    return {
        "figures": [*figures.curves(part, name), *figures.thresholds(part, name)],
        "tables": tables.thresholds(part),
    }


_FILL: dict[type, Any] = {
    Choices: _choices,
    Rated: _rated,
    Preference: _preference,
    Transcriptions: _transcriptions,
    Thresholds: _thresholds,
}


def _methods(results: Results) -> set[str]:
    """Which methods this page needs words for."""
    used = {"Over listeners and items"}
    if results.choices:
        used |= {
            "Against chance",
            "Equivalence",
            "Who may hear it",
            "If answers were independent",
            "Agreement",
            "d′ and bias",
        }
        used |= {"Mixed model"} if any(c.mixed for c in results.choices) else set()
    used |= {"MUSHRA" if r.kind == "mushra" else "Ratings" for r in results.rated} | (
        {"Agreement"} if results.rated else set()
    )
    used |= {"If answers were independent"} if results.rated or results.preference else set()
    used |= {"Preference"} if results.preference else set()
    used |= {"Thresholds"} if results.thresholds else set()
    used |= {"Transcription"} if results.transcriptions else set()
    return used | ({"Several questions"} if results.hypotheses else set())


def _playback(results: Results) -> str:
    p = results.playback
    if not p.trials:
        return "No screen with sounds was answered."
    rates = ", ".join(f"{rate} Hz ({n})" for rate, n in p.rates_hz) or "unknown"
    return (
        f"Of {many(p.trials, 'answered screen')} with sounds, {fmt(p.heard, 'n')} "
        f"({fmt(p.heard / p.trials, '%')}) come with proof that every sound was played: the page decoded the "
        f"very samples that were sent. {fmt(p.plays, '1f')} plays per screen. Rate of the devices: {rates}."
    )


def _facts(results: Results, rows: Rows) -> list[tuple[str, str]]:
    out = results.exclusions
    checked = {
        None: "was not recorded",
        True: "is the one recorded before the first answer",
        False: "is NOT the one recorded",
    }[out.same]
    minutes = [p.minutes for p in results.people if p.minutes is not None]
    return [
        ("study", results.study),
        ("fingerprint", f"{results.fingerprint[:16]}… {checked}"),
        ("rows", fmt(len(rows), "n")),
        ("first answer", results.first or "–"),
        ("last answer", results.last or "–"),
        ("listeners", f"{results.listeners} of {results.wanted} wanted"),
        ("median duration", duration(60 * sorted(minutes)[len(minutes) // 2]) if minutes else "–"),
        ("seed of the analysis", str(results.seed)),
    ]
