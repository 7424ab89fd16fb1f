"""Error of a listener's threshold after a few trials, and coverage of its 95 % interval:
docs/benchmarks_adaptive.md.

    python benchmarks/bench_adaptive.py [--listeners 3000] [--studies 500] [--no-write]

Simulated same/different listeners: threshold uniform over 15-85, slope log-uniform over 2-32, lapse rate
uniform over 0-8 %, false alarm rate 4 %. All methods use the same listeners and the same random numbers (one
uniform number per listener and trial).
"""

import argparse
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from limen.core.statistics import clopper_pearson, t_interval
from limen.perception import adaptive, psychometric

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks_adaptive.md"
TRIALS, CHECKED, BATCH, LISTENERS = 30, (12, 20, 30), 100, 12


@dataclass(frozen=True)
class Listeners:
    threshold: np.ndarray
    slope: np.ndarray
    lapse: np.ndarray
    uniform: np.ndarray

    def answers(self, levels: np.ndarray, trial: int, rows: slice = slice(None)) -> np.ndarray:
        chance = psychometric.probability(
            levels, self.threshold[rows], self.slope[rows], self.lapse[rows], 0.04
        )
        return self.uniform[rows, trial] < chance


def listeners(threshold: np.ndarray, rng: np.random.Generator) -> Listeners:
    n = len(threshold)
    return Listeners(
        threshold,
        np.exp(rng.uniform(np.log(2), np.log(32), n)),
        rng.uniform(0, 0.08, n),
        rng.random((n, TRIALS)),
    )


def simulated(options: adaptive.Options, who: Listeners) -> tuple[np.ndarray, np.ndarray]:
    """Levels and answers, (N, TRIALS). psi for many listeners at once; the others one by one."""
    n = len(who.threshold)
    levels, answers = np.zeros((n, TRIALS)), np.zeros((n, TRIALS), bool)
    if options.method != "psi":
        for i in range(n):
            for t in range(TRIALS):
                level = adaptive.next_level(
                    options, list(zip(levels[i, :t], answers[i, :t], strict=True)), seed=i
                )
                assert level is not None
                levels[i, t], answers[i, t] = level, who.answers(np.array([level]), t, slice(i, i + 1))[0]
        return levels, answers
    g = psychometric.grid(options.prior)
    for start in range(0, n, BATCH):
        rows = slice(start, min(n, start + BATCH))
        logs = np.zeros((rows.stop - start, len(g.thresholds), len(g.slope)))
        for t in range(TRIALS):
            w = np.exp(logs - logs.max((1, 2), keepdims=True))
            chosen = adaptive.most_informative(g, w / w.sum((1, 2), keepdims=True), options.about)
            levels[rows, t] = g.levels[chosen]
            answers[rows, t] = who.answers(levels[rows, t], t, rows)
            for answer in (0, 1):
                logs[answers[rows, t] == answer] += g.log_answers[answer][chosen[answers[rows, t] == answer]]
    first = list(zip(levels[0, :-1], answers[0, :-1], strict=True))
    assert adaptive.next_level(options, first, seed=0) == levels[0, -1], (
        "a batch must choose the same levels as a single listener"
    )
    return levels, answers


def reversals(levels: np.ndarray, answers: np.ndarray) -> float:
    """The usual estimate of a staircase: the mean level at its reversals, without the first two if there are
    more than four."""
    at = levels[1:][answers[1:] != answers[:-1]]
    return float(np.mean(at[2:] if len(at) > 4 else at)) if len(at) else float(levels[-1])


def rmse_table(who: Listeners, psi: tuple[np.ndarray, np.ndarray], lines: list[str]) -> None:
    n = len(who.threshold)
    kinds: dict[str, dict[str, Any]] = {
        "psi, about the threshold (default)": {},
        "psi, about all (QUEST+)": {"about": "all"},
        "greedy (Manocha et al. 2020)": {"method": "greedy"},
        "greedy, no prior, no push": {"method": "greedy", "prior_trials": 0, "push": 0},
        "staircase": {"method": "staircase"},
        "constant": {"method": "constant"},
        "random": {"method": "random"},
    }
    errors: dict[str, np.ndarray] = {}
    for name, kind in kinds.items():
        levels, answers = simulated(adaptive.Options(**kind), who) if kind else psi
        pairs = list(zip(levels, answers, strict=True))
        if name == "staircase":
            errors["staircase, mean of reversals"] = np.asarray(
                [[reversals(x[:t], a[:t]) for t in CHECKED] for x, a in pairs]
            )
            name = "staircase, posterior mean"
        errors[name] = np.asarray(
            [[psychometric.fit(x[:t], a[:t]).threshold.mean for t in CHECKED] for x, a in pairs]
        )
        print(name, rmse(errors[name] - who.threshold[:, None]).round(2), flush=True)
    errors = {name: e - who.threshold[:, None] for name, e in errors.items()}
    ours = next(iter(errors.values()))
    draws = np.random.default_rng(1).integers(0, n, (500, n))
    lines += [
        f"| method | {' | '.join(f'{t} trials | larger than psi by' for t in CHECKED)} |",
        "|---" * 7 + "|",
    ]
    for name, e in errors.items():
        low, high = np.quantile([rmse(e[d]) - rmse(ours[d]) for d in draws], [0.025, 0.975], axis=0)
        gaps = [
            "" if e is ours else f"{g:.2f} [{a:.2f}, {b:.2f}]"
            for g, a, b in zip(rmse(e) - rmse(ours), low, high, strict=True)
        ]
        lines.append(
            f"| {name} | {' | '.join(f'{v:.2f} | {gap}' for v, gap in zip(rmse(e), gaps, strict=True))} |"
        )


def rmse(errors: np.ndarray) -> np.ndarray:
    return np.sqrt((errors**2).mean(0))


def share(hits: np.ndarray) -> str:
    low, high = clopper_pearson(int(hits.sum()), len(hits))
    return f"{hits.mean():.1%} [{low:.1%}, {high:.1%}]"


def coverage_row(name: str, who: Listeners, psi: tuple[np.ndarray, np.ndarray], middle: np.ndarray) -> str:
    fits = [psychometric.fit(x, a) for x, a in zip(*psi, strict=True)]
    inside = np.asarray(
        [f.threshold.low <= t <= f.threshold.high for f, t in zip(fits, who.threshold, strict=True)]
    )
    groups = [fits[i * LISTENERS : (i + 1) * LISTENERS] for i in range(len(middle))]
    means = [psychometric.pooled(group).mean for group in groups]
    plain = np.asarray([t_interval([f.threshold.mean for f in group]) for group in groups], float)
    together = np.asarray([m.low <= t <= m.high for m, t in zip(means, middle, strict=True)])
    student = (plain[:, 0] <= middle) & (middle <= plain[:, 1])
    pooled = f"{share(together)}, {np.mean([m.high - m.low for m in means]):.1f} wide"
    return (
        f"| {name} | {share(inside[::LISTENERS])} | {share(inside)} | {pooled} | {share(student)}, "
        f"{np.diff(plain).mean():.1f} wide |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--listeners", type=int, default=3000)
    parser.add_argument("--studies", type=int, default=500)
    parser.add_argument("--no-write", action="store_true")
    arguments = parser.parse_args()
    started = time.process_time()
    rng = np.random.default_rng(2)
    even = listeners(rng.uniform(15, 85, arguments.studies * LISTENERS), rng)
    mean, spread = rng.uniform(30, 70, (arguments.studies, 1)), rng.uniform(3, 15, (arguments.studies, 1))
    bell = listeners(
        np.clip(mean + spread * rng.standard_normal((arguments.studies, LISTENERS)), 0, 100).ravel(), rng
    )
    psi = simulated(adaptive.Options(), even)
    n = min(arguments.listeners, len(even.threshold))
    first = replace(
        even,
        threshold=even.threshold[:n],
        slope=even.slope[:n],
        lapse=even.lapse[:n],
        uniform=even.uniform[:n],
    )
    lines = [
        "# Adaptive sampling of thresholds",
        "",
        "Written by `python benchmarks/bench_adaptive.py`. Simulated same/different listeners on levels "
        "0-100: slopes log-uniform over 2-32",
        "levels, lapse rates uniform over 0-8 %, false alarm rate 4 %.",
        "",
        f"## Error of the threshold (RMSE), {n} listeners, thresholds uniform over 15-85",
        "",
        "All methods use the same listeners and the same random numbers, and all except one row use the "
        "same estimate: the mean of the",
        "posterior, as given by `adaptive.posterior`. In brackets: 95 % interval of the difference, from a "
        "bootstrap over listeners. The",
        "usual estimate of a staircase is the mean level at its reversals. With the posterior mean, the "
        "staircase is as accurate as psi;",
        "psi then has the advantage that no step sizes need to be chosen.",
        "",
    ]
    rmse_table(first, (psi[0][:n], psi[1][:n]), lines)
    lines += [
        "",
        f"## Coverage of 95 % intervals, {arguments.studies} studies of {LISTENERS} listeners, {TRIALS} trials "
        "each, psi",
        "",
        "Share of intervals that contain the true value, with its Clopper-Pearson interval: for the "
        "threshold of a listener (credible",
        "interval), and for the mean threshold of the population of listeners (`psychometric.pooled`, and "
        "the t interval over the",
        "estimates).",
        "",
        "| listeners of a study | one listener per study | every listener | mean threshold, `pooled` | mean "
        "threshold, t interval |",
        "|---|---|---|---|---|",
        coverage_row("uniform over 15-85", even, psi, np.full(arguments.studies, 50.0)),
        coverage_row(
            "Gaussian: mean 30-70, spread 3-15", bell, simulated(adaptive.Options(), bell), mean[:, 0]
        ),
    ]
    print("\n".join(lines[-2:]))
    lines += ["", f"The run took {time.process_time() - started:.0f} s on one core."]
    if not arguments.no_write:
        PAGE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
