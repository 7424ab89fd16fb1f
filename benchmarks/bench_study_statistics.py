"""Level of the tests and coverage of the intervals of a listening study, measured on simulated studies:
docs/benchmarks_statistics.md.

    python benchmarks/bench_study_statistics.py [--studies 10000] [--no-write]

Listeners and items differ by Gaussian draws of their log odds (the answers are those of
tests/listening/simulated_answers.py). Every study is analysed as by `limen listen analyze`. The text of the
page is in benchmarks/study_statistics.md.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import yaml
from scipy import stats

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "listening"))

import simulated_answers as simulated  # noqa: E402

from limen.listening.design import screens  # noqa: E402
from limen.listening.statistics.crossed import Crossing  # noqa: E402
from limen.listening.statistics.detection import dprime, sensitivity  # noqa: E402
from limen.listening.statistics.hearers import (  # noqa: E402
    FEW,
    hearers,
)
from limen.listening.statistics.power import expected_of_share, power_detect, power_equivalence  # noqa: E402
from limen.listening.statistics.proportions import proportion  # noqa: E402
from limen.listening.statistics.samples import judged, p_above, p_within, share_interval  # noqa: E402
from limen.listening.study import Study  # noqa: E402

PAGE = ROOT / "docs" / "benchmarks_statistics.md"
ICCS, ITEM_SDS, SHARES, BOUND = (0.0, 0.05, 0.15, 0.3), (0.0, 0.4, 0.8), (0.5, 0.6, 0.75, 0.9), 0.1
Design = tuple[np.ndarray, np.ndarray, Crossing]


SAME = ((36, 6), (20, 12), (8, 12))
"""Listeners and items; every listener hears all items."""
DRAWN = ((20, 12, 60), (8, 12, 24))
"""Listeners, items per listener, and size of the pool from which they are drawn."""
OTHER_SAME, OTHER_DRAWN = ((24, 8), (15, 10), (12, 20), (50, 4), (10, 6)), ((30, 8, 40), (14, 10, 30))
"""Designs that were not used when the method was chosen."""


def designs(
    same: Sequence[tuple[int, int]], drawn: Sequence[tuple[int, int, int]], rng: np.random.Generator
) -> dict[str, Design]:
    """The listener and the item of every answer."""
    found = {
        f"{n} x {items}, the same clips for all": simulated.everyone_hears_all(n, items) for n, items in same
    }
    for listeners, items, pool in drawn:
        some = np.concatenate([rng.permutation(pool)[:items] for _ in range(listeners)])
        found[f"{listeners} x {items}, drawn from {pool} clips"] = (
            np.repeat(np.arange(listeners), items),
            np.unique(some, return_inverse=True)[1],
        )
    return {name: (who, what, Crossing(who, what)) for name, (who, what) in found.items()}


def groups_of_their_own() -> Design:
    """The design of Vadillo and Santana 2022: nine groups, each with clips of its own."""
    who, place = simulated.everyone_hears_all(36, 6)
    what = 6 * (who % 9) + place
    return who, what, Crossing(who, what)


def percent(value: float, low: float = -1.0, high: float = 101.0) -> str:
    """The value in per cent, in bold outside the target."""
    shown = f"{100 * value:.1f}"
    return shown if low <= round(100 * value, 1) <= high else f"**{shown}**"


def shares(name: str, design: Design, studies: int, rng: np.random.Generator) -> list[str]:
    who, what, crossing = design
    n, lines = crossing.n, []
    exact = np.array([proportion(k, n).p_two_sided for k in range(n + 1)])
    plain = np.array([(p.low, p.high) for p in (proportion(k, n) for k in range(n + 1))])
    for icc in ICCS:
        for item_sd in ITEM_SDS:
            cells = []
            for share in SHARES:
                right = simulated.right(who, what, share, icc, item_sd, studies, rng)
                found = judged(crossing, right)
                low, high = share_interval(*found, n)
                above = p_above(*found, n, 0.5)
                if share == 0.5:
                    tests = [(2 * np.minimum(above, 1 - above) < 0.05).mean(), (above < 0.05).mean()]
                    counts = right.sum(1)
                    independent = [
                        (exact[counts] < 0.05).mean(),
                        ((plain[counts, 0] <= 0.5) & (plain[counts, 1] >= 0.5)).mean(),
                    ]
                if share == 0.5 + BOUND:
                    tests.append((1 - p_above(*found, n, share) < 0.05).mean())
                    both = (p_within(*found, n, 0.5, BOUND) < 0.05).mean()
                cells.append(percent(((low <= share) & (share <= high)).mean(), 93, 97))
            line = [
                name,
                f"{icc:g}",
                f"{item_sd:g}",
                *(percent(v, 3, 6) for v in tests),
                percent(both, -1, 6),
                *cells,
            ]
            lines.append("| " + " | ".join([*line, *(percent(v) for v in independent)]) + " |")
    print(lines[0], lines[-1], sep="\n", flush=True)
    return lines


def ranges(every: dict[str, Design], studies: int, rng: np.random.Generator) -> list[str]:
    """Smallest and largest value over all ICCs and item SDs of the columns of `shares` that have a target."""
    lines = []
    for name, design in every.items():
        rows = [
            [cell.strip(" *") for cell in line.strip("|").split("|")]
            for line in shares(name, design, studies, rng)
        ]
        columns = [[float(row[k]) for row in rows] for k in (3, 4, 5, 7, 8, 9, 10)]
        spans = [
            f"{percent(min(c) / 100, *goal)}–{percent(max(c) / 100, *goal)}"
            for c, goal in zip(columns, [(3, 6)] * 3 + [(93, 97)] * 4, strict=True)
        ]
        lines.append("| " + " | ".join([name, *spans]) + " |")
    return lines


def alternatives(studies: int, rng: np.random.Generator) -> list[str]:
    """Two-sided tests with other variances and degrees of freedom if every listener hears every item: functions
    of the three mean squares."""
    lines = []
    for listeners, items in SAME:
        who, what = simulated.everyone_hears_all(listeners, items)
        crossing, n = Crossing(who, what), listeners * items
        dfs = listeners - 1, items - 1, (listeners - 1) * (items - 1)
        for icc, item_sd in ((0.0, 0.0), (0.0, 0.4), (0.0, 0.8), (0.15, 0.4)):
            right = simulated.right(who, what, 0.5, icc, item_sd, studies, rng).reshape(
                studies, listeners, items
            )
            share, of_who, of_what = right.mean((1, 2)), right.mean(2), right.mean(1)
            a, b = items * of_who.var(1, ddof=1), listeners * of_what.var(1, ddof=1)
            left = right - of_who[:, :, None] - of_what[:, None] + share[:, None, None]
            e = (left**2).sum((1, 2)) / dfs[2]
            more, much = np.maximum(a - e, 0), np.maximum(b - e, 0)
            terms = a**2 / dfs[0] + b**2 / dfs[1] + e**2 / dfs[2]
            plain, cut = a + b - e, e + more + much
            least = np.maximum(plain, 0.01 * e)
            kept = (more > 0) * a**2 / dfs[0] + (much > 0) * b**2 / dfs[1] + e**2 / dfs[2]
            added = more**2 / dfs[0] + much**2 / dfs[1] + e**2 / dfs[2]
            floored = np.maximum(plain, e)
            tests = [
                (least, np.maximum(least**2 / terms, 1)),
                (cut, cut**2 / kept),
                (cut, cut**2 / added),
                (floored, np.maximum(floored**2 / terms, min(dfs[:2]))),
            ]
            cells = []
            for variance, df in tests:
                effect = variance / (share * (1 - share) * n / (n - 1))
                cells.append(
                    (
                        2
                        * stats.t.sf(np.abs(share - 0.5) / np.sqrt(effect * 0.25 / n), np.minimum(df, n - 1))
                        < 0.05
                    ).mean()
                )
            above = p_above(*judged(crossing, right.reshape(studies, n)), n, 0.5)
            cells.append((2 * np.minimum(above, 1 - above) < 0.05).mean())
            name = f"{listeners} x {items}, the same clips for all"
            lines.append(
                "| "
                + " | ".join([name, f"{icc:g}", f"{item_sd:g}", *(percent(v, 3, 6) for v in cells)])
                + " |"
            )
    print(lines[0], flush=True)
    return lines


def layouts() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Listener, item and condition of every answer."""
    found = {}
    for listeners, each in ((36, 6), (20, 12), (8, 12)):
        who, place = simulated.everyone_hears_all(listeners, 2 * each)
        name = f"{listeners} x {each} of each"
        found[f"{name}, the same clips for all"] = who, place, place // each
        if listeners == 36:
            found[f"{name}, nine groups with clips of their own"] = (
                who,
                2 * each * (who % 9) + place,
                place // each,
            )
            # half of a group hears a clip clean, the other half adversarial
            found[f"{name}, nine groups, each clip in both conditions"] = (
                who,
                2 * each * (who % 9) + place,
                (place // each + who // 9) % 2,
            )
        found[f"{name}, the same clips in both conditions"] = who, place % each, place // each
    for listeners, items in ((36, 12), (24, 12), (20, 12), (8, 12)):
        who, what = simulated.everyone_hears_all(listeners, items)
        found[f"{listeners} x {items // 2} of each, Latin square"] = who, what, (who + what) % 2
    kept = np.random.default_rng(0).random(36 * 6) < 0.8
    who, what = (v[kept] for v in simulated.everyone_hears_all(36, 6))
    found["36 x 3 of each, Latin square, a fifth of the answers missing"] = who, what, (who + what) % 2
    return found | {"seed000 as `limen listen new` makes it, 36 x 6 of each": seed000()}


def seed000() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    content = yaml.safe_load(
        (ROOT / "limen" / "listening" / "templates" / "seed000.yaml").read_text(encoding="utf-8")
    )
    files = {condition: f"{condition}.wav" for condition in ("clean", "adversarial")}
    content["items"] = [
        {
            "id": f"{group}-{k}",
            "files": files,
            "answer": f"word {k}",
            "group": f"group {group}",
            "factors": {"part": 1 if k < 12 else 2, "loudness": "low"},
        }
        for group in range(9)
        for k in range(18)
    ]
    study = Study.model_validate(content)
    rows = [
        (f"{group} {number}", screen.facts["item"], screen.facts["condition"] == "adversarial")
        for group in study.cells
        for number in range(4)
        for screen in screens(study, group, number)
        if (screen.role, screen.kind) == ("trial", "naturalness")
    ]
    who, what, condition = (np.unique(column, return_inverse=True)[1] for column in zip(*rows, strict=True))
    return who, what, condition


def ratings(studies: int, rng: np.random.Generator) -> list[str]:
    """Tests of the difference between two conditions, rated in steps of 1 to 5, if it is zero and if it is a
    quarter of a step."""
    lines = []
    for name, (who, what, condition) in layouts().items():
        crossing = Crossing(who, what, condition == 1)
        for spreads in ((0.0, 0.0, 0.0), (0.5, 0.0, 0.0), (0.5, 0.0, 0.4), (0.5, 0.0, 0.8), (0.5, 0.3, 0.8)):
            latent = 3 + spreads[0] * rng.standard_normal((studies, who.max() + 1))[:, who]
            latent += spreads[1] * rng.standard_normal((studies, who.max() + 1, 2))[:, who, condition]
            latent += spreads[2] * rng.standard_normal((studies, what.max() + 1))[
                :, what
            ] + rng.standard_normal((studies, len(who)))
            cells = []
            for shift, goal in ((0.0, (3, 6)), (0.25, ())):
                given = np.clip(np.round(latent + shift * condition), 1, 5)
                spread = crossing.spread(given)
                p = 2 * stats.t.sf(np.abs(spread.value) / np.sqrt(spread.variance), spread.df)
                cells.append(percent((p < 0.05).mean(), *goal))
                if not shift:
                    plain = stats.ttest_ind(given[:, condition == 0], given[:, condition == 1], axis=1).pvalue
            row = [name, *(f"{s:g}" for s in spreads), cells[0], percent((plain < 0.05).mean()), cells[1]]
            lines.append("| " + " | ".join(row) + " |")
    print(lines[-1], flush=True)
    return lines


def few_items(studies: int, rng: np.random.Generator) -> list[str]:
    """Two-sided tests of chance if all listeners hear the same few clips."""
    lines = []
    for listeners in (36, 100):
        cells = []
        for items in (2, 3, 4, 5, 6):
            who, what = simulated.everyone_hears_all(listeners, items)
            crossing = Crossing(who, what)
            rates = []
            for icc, item_sd in ((0.0, 0.0), (0.0, 0.4), (0.0, 0.8), (0.15, 0.8)):
                above = p_above(
                    *judged(crossing, simulated.right(who, what, 0.5, icc, item_sd, studies, rng)),
                    crossing.n,
                    0.5,
                )
                rates.append((2 * np.minimum(above, 1 - above) < 0.05).mean())
            cells.append(f"{percent(min(rates), 3, 6)}–{percent(max(rates), 3, 6)}")
        lines.append(f"| {listeners} | " + " | ".join(cells) + " |")
    return lines


def power(all_designs: dict[str, Design], studies: int, rng: np.random.Generator) -> list[str]:
    """Power of the tests, of the exact test if answers are independent, and the power planned by `check`."""
    lines = []
    for name, (who, what, crossing) in all_designs.items():
        n, m = crossing.n, crossing.n // crossing.listeners
        exact = np.array([proportion(k, n).p_two_sided for k in range(n + 1)])
        for icc, item_sd in ((0.0, 0.0), (0.05, 0.2), (0.15, 0.4)):
            cells = []
            for share in (0.6, 0.65):
                right = simulated.right(who, what, share, icc, item_sd, studies, rng)
                above = p_above(*judged(crossing, right), n, 0.5)
                planned = expected_of_share(share, crossing.listeners, m, crossing.items, icc, item_sd)
                planned_power = power_detect(n, share, 0.5, 0.05, planned.design_effect, planned.df, sides=2)
                cells += [percent((2 * np.minimum(above, 1 - above) < 0.05).mean()), percent(planned_power)]
                cells.append(percent((exact[right.sum(1)] < 0.05).mean()) if not icc else "")
            right = simulated.right(who, what, 0.5, icc, item_sd, studies, rng)
            planned = expected_of_share(0.5, crossing.listeners, m, crossing.items, icc, item_sd)
            within_bound = p_within(*judged(crossing, right), n, 0.5, BOUND + 0.05) < 0.05
            few = np.array([few_hear(k, m) for k in right.reshape(studies, -1, m).sum(2)])
            cells += [percent(within_bound.mean()), percent((within_bound & few).mean())]
            design = planned.design_effect, planned.df
            cells.append(
                percent(
                    power_equivalence([m] * crossing.listeners, BOUND + 0.05, 0.5, 0.5, 0.05, *design, icc)
                )
            )
            lines.append("| " + " | ".join([name, f"{icc:g}", f"{item_sd:g}", *cells]) + " |")
    print(lines[0], flush=True)
    return lines


def few_hear(right: np.ndarray, trials: int) -> bool:
    """Whether the bound permits the verdict inaudible; computed once for equal counts of passing listeners."""
    return _few(tuple(np.bincount(right, minlength=trials + 1).tolist()), trials)


@cache
def _few(listeners: tuple[int, ...], trials: int) -> bool:
    right = np.repeat(np.arange(trials + 1), listeners)
    return hearers(right.tolist(), [trials] * len(right)).high <= FEW


def who_hears(studies: int, rng: np.random.Generator) -> list[str]:
    lines = []
    for listeners, trials in ((30, 12), (36, 6), (20, 12), (8, 12), (100, 12)):
        per_listener = [trials] * listeners
        who, what = simulated.everyone_hears_all(listeners, trials)
        crossing, n = Crossing(who, what), listeners * trials
        for share, ability in ((0.0, 1.0), (0.1, 1.0), (0.1, 0.9), (0.3, 0.9)):
            some = np.arange(listeners) < round(share * listeners)
            # the number of hearers is the same in every study: 3 of 30
            right = rng.random((studies, n)) < np.where(some, ability, 0.5)[who]
            bound = np.array(
                [hearers(k, per_listener).high for k in right.reshape(studies, listeners, trials).sum(2)]
            )
            equal = p_within(*judged(crossing, right), n, 0.5, BOUND) < 0.05
            true = some.mean()
            cells = [(bound >= true).mean(), np.median(bound), equal.mean(), (equal & (bound <= FEW)).mean()]
            hearing = f"{some.sum()} of {listeners}, right in {100 * ability:.0f} %"
            lines.append(
                f"| {listeners} x {trials} | {hearing} | " + " | ".join(percent(v) for v in cells) + " |"
            )
    print(lines[1], flush=True)
    return lines


def sensitivities(studies: int, rng: np.random.Generator) -> list[str]:
    """Mean of d' and coverage of its interval, with equal numbers of clips for either right answer."""
    lines = []
    for (listeners, trials), (icc, item_sd) in product(
        SAME, ((0.0, 0.0), (0.0, 0.8), (0.15, 0.8), (0.3, 0.0))
    ):
        who, what = simulated.everyone_hears_all(listeners, trials)
        crossing, signal = Crossing(who, what), what % 2 == 0
        half = crossing.n // 2
        for share in (0.5, 0.6, 0.75) if not (icc or item_sd) else (0.5,):
            right = simulated.right(who, what, share, icc, item_sd, studies, rng)
            hits, alarms = right[:, signal].sum(1), half - right[:, ~signal].sum(1)
            ends = np.stack(share_interval(*judged(crossing, right), crossing.n), 1).tolist()
            found = [
                sensitivity(h, half, f, half, interval=tuple(e))
                for h, f, e in zip(hits.tolist(), alarms.tolist(), ends, strict=True)
            ]
            d, true = np.array([f.dprime for f in found]), float(dprime(share, 1 - share))
            held = np.mean([f.low <= true <= f.high for f in found])
            row = [
                f"{listeners} x {trials}",
                f"{icc:g}",
                f"{item_sd:g}",
                f"{true:.2f}",
                f"{d.mean():+.2f}",
                f"{np.maximum(d, 0).mean():+.2f}",
            ]
            lines.append("| " + " | ".join([*row, percent(held, 93, 97)]) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=10_000)
    parser.add_argument("--no-write", action="store_true")
    arguments = parser.parse_args()
    started, rng = time.process_time(), np.random.default_rng(0)
    every = designs(SAME, DRAWN, rng)
    every["36 x 6, nine groups with 6 clips each"] = groups_of_their_own()
    text = (Path(__file__).parent / "study_statistics.md").read_text(encoding="utf-8")
    tables = {
        "SHARES": "\n".join(
            line for name, design in every.items() for line in shares(name, design, arguments.studies, rng)
        ),
        "OTHERS": "\n".join(ranges(designs(OTHER_SAME, OTHER_DRAWN, rng), arguments.studies, rng)),
        "CHOICE": "\n".join(alternatives(arguments.studies, rng)),
        "RATINGS": "\n".join(ratings(arguments.studies, rng)),
        "POWER": "\n".join(power(every, arguments.studies, rng)),
        "HEARERS": "\n".join(who_hears(arguments.studies // 5, rng)),
        "FEWITEMS": "\n".join(few_items(arguments.studies, rng)),
        "SENSITIVITY": "\n".join(sensitivities(arguments.studies // 5, rng)),
        "STUDIES": f"{arguments.studies:,}",
        "SECONDS": f"{time.process_time() - started:.0f}",
    }
    for name, table in tables.items():
        text = text.replace("{" + name + "}", table)
    if arguments.no_write:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
