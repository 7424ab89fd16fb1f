"""Models, power and looks before the end, beside statsmodels, integrals, simulations and published
boundaries."""

import dataclasses
import json
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import binom
from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM

from limen.core.errors import UserError
from limen.listening.statistics.mixed_models import mixed_logistic
from limen.listening.statistics.proportions import proportion
from limen.listening.statistics.sequential import always_valid, boundaries, count_boundaries


def answers(listeners, items, seed, listener_sd=1.0, item_sd=0.7, effect=0.8):
    rng = np.random.default_rng(seed)
    by_listener, by_item = rng.normal(0, listener_sd, listeners), rng.normal(0, item_sd, items)
    rows = []
    for i in range(listeners):
        for j in range(items):
            x = (i + j) % 2
            rows.append(
                {
                    "listener": i,
                    "item": j,
                    "loud": x,
                    "correct": rng.random() < expit(0.3 + effect * x + by_listener[i] + by_item[j]),
                }
            )
    return rows


def test_with_one_group_the_model_is_the_exact_marginal_likelihood():
    """The integral over each listener's effect by quadrature; with 30 answers each, Laplace's approximation
    is close."""
    rows = answers(15, 30, seed=1, item_sd=0)
    counts = [sum(r["correct"] for r in rows if r["listener"] == i) for i in range(15)]
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()

    def loss(theta):
        mean, sd = theta[0], math.exp(theta[1])
        return -np.log(binom.pmf(np.array(counts)[:, None], 30, expit(mean + sd * nodes)) @ weights).sum()

    exact = minimize(loss, [0.5, 0.0], method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-4})
    found = mixed_logistic(rows, groups=["listener"])
    assert found.effects[0].value == pytest.approx(exact.x[0], abs=0.02)
    assert found.spreads["listener"] == pytest.approx(math.exp(exact.x[1]), rel=0.03)
    constant = sum(math.log(math.comb(30, k)) for k in counts)
    assert found.log_likelihood == pytest.approx(-exact.fun - constant, abs=0.1)


def test_crossed_listeners_and_items_agree_with_the_bayesian_model_of_statsmodels():
    rows = answers(30, 16, seed=2)
    found = mixed_logistic(rows, fixed=["loud"])
    x = np.array([[1.0, r["loud"]] for r in rows])
    z = np.array(
        [[r["listener"] == i for i in range(30)] + [r["item"] == j for j in range(16)] for r in rows], float
    )
    y = np.array([r["correct"] for r in rows], float)
    theirs = BinomialBayesMixedGLM(y, x, z, np.repeat([0, 1], [30, 16]), vcp_p=2, fe_p=10).fit_vb()
    for ours, mean in zip(found.effects, theirs.fe_mean, strict=True):
        assert ours.value == pytest.approx(mean, abs=0.3 * ours.error)
    for name, log_sd in zip(("listener", "item"), theirs.vcp_mean, strict=True):
        assert found.spreads[name] == pytest.approx(math.exp(log_sd), rel=0.25)
    assert found.effects[1].error > theirs.fe_sd[1], "variational errors are known to be too small"
    assert found.groups == {"listener": 30, "item": 16}


def test_the_model_covers_the_true_effect_about_as_often_as_it_says():
    inside = 0
    for seed in range(30):
        effect = mixed_logistic(answers(16, 10, seed=100 + seed), fixed=["loud"]).effects[1]
        inside += effect.low <= 0.8 <= effect.high
    assert inside >= binom.ppf(0.001, 30, 0.95)


def test_all_answers_right_give_finite_numbers():
    found = mixed_logistic([{"listener": i % 4, "item": i % 3, "correct": True} for i in range(12)])
    assert math.isfinite(found.effects[0].value)
    assert found.effects[0].value > 2
    assert json.loads(json.dumps(dataclasses.asdict(found)))["n"] == 12


def test_rows_without_a_column_are_refused():
    with pytest.raises(UserError, match="correct, listener, item"):
        mixed_logistic([{"listener": 1, "item": 2}])


@pytest.mark.parametrize(
    ("spending", "z"),
    [
        ("obrien-fleming", (4.877, 3.357, 2.680, 2.290, 2.031)),
        ("pocock", (2.438, 2.427, 2.410, 2.397, 2.386)),
    ],
)
def test_boundaries_of_five_looks_are_the_published_ones(spending, z):
    """Lan & DeMets spending functions, two-sided 5 %, five equal looks."""
    found = boundaries([0.2, 0.4, 0.6, 0.8, 1.0], 0.05, spending, sides=2)
    assert found.z == pytest.approx(z, abs=0.001)
    assert found.spent[-1] == pytest.approx(0.05)


def test_boundaries_spend_alpha_on_simulated_walks():
    looks = np.array([0.3, 0.5, 1.0])
    found = boundaries(looks, 0.05, "pocock")
    steps = np.random.default_rng(9).standard_normal((200_000, 3)) * np.sqrt(np.diff(looks, prepend=0))
    z = steps.cumsum(1) / np.sqrt(looks)
    assert (z >= found.z).any(1).mean() == pytest.approx(0.05, abs=0.002)
    assert (z[:, :2] >= found.z[:2]).any(1).mean() == pytest.approx(found.spent[1], abs=0.002)


@pytest.mark.parametrize("spending", ["obrien-fleming", "pocock"])
def test_counted_boundaries_spend_what_they_say_and_never_more(spending):
    looks = (20, 40, 60, 80)
    found = count_boundaries(looks, alpha=0.05, spending=spending)
    rng = np.random.default_rng(10)
    right = (rng.random((100_000, 80)) < 0.5).cumsum(1)[:, np.array(looks) - 1]
    limits = np.array([np.inf if c is None else c for c in found.critical])
    assert (right >= limits).any(1).mean() == pytest.approx(found.spent[-1], abs=0.003)
    assert found.spent[-1] <= 0.05
    assert sorted(found.spent) == list(found.spent)


def test_one_look_at_the_end_is_the_plain_exact_test():
    critical = count_boundaries([72]).critical[0]
    assert proportion(critical, 72).p_greater <= 0.05 < proportion(critical - 1, 72).p_greater


def test_looks_out_of_order_are_refused():
    with pytest.raises(UserError, match="increasing"):
        boundaries([0.5, 0.4])


def test_the_e_value_is_the_mixture_written_as_an_integral():
    for k, n, chance in ((40, 72, 0.5), (9, 12, 1 / 3), (0, 5, 0.5)):
        mixture = quad(lambda p, k=k, n=n: p**k * (1 - p) ** (n - k), chance, 1)[0] / (1 - chance)
        assert always_valid(k, n, chance).e_value == pytest.approx(
            mixture / (chance**k * (1 - chance) ** (n - k)), rel=1e-6
        )


def test_looking_after_every_answer_rarely_convicts_the_innocent_and_finds_the_guilty():
    rng = np.random.default_rng(11)
    wrong = found = 0
    for _ in range(200):
        for share in (0.5, 0.75):
            counts = (rng.random(150) < share).cumsum()
            detected = any(always_valid(int(counts[n - 1]), n).detected for n in range(10, 151, 5))
            wrong, found = wrong + (detected and share == 0.5), found + (detected and share == 0.75)
    assert wrong <= binom.ppf(0.9995, 200, 0.05)
    assert found >= 180


def test_the_confidence_sequence_holds_the_share_at_all_times_and_contains_the_usual_interval():
    rng = np.random.default_rng(12)
    missed = 0
    for _ in range(200):
        counts = (rng.random(120) < 0.6).cumsum()
        missed += any(
            not (c := always_valid(int(counts[n - 1]), n)).low <= 0.6 <= c.high for n in range(1, 121, 7)
        )
    assert missed <= binom.ppf(0.9995, 200, 0.05)
    usual, always = proportion(40, 72), always_valid(40, 72)
    assert always.low < usual.low < usual.high < always.high


def test_inaudible_is_shown_once_the_sequence_lies_inside_the_bounds():
    assert always_valid(500, 1000, bound=0.1).equivalent is True
    assert always_valid(40, 72, bound=0.1).equivalent is False
    nothing = always_valid(0, 0)
    assert (nothing.e_value, nothing.low, nothing.high, nothing.equivalent) == (pytest.approx(1), 0, 1, None)
