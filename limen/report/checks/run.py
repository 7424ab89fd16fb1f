"""The attack sanity checks: signs that an attack was weak, so that the numbers flatter the model.

After Carlini et al. 2019, https://arxiv.org/abs/1902.06705, and the warnings of AutoAttack. Computed from
summaries and rows alone.
"""

from collections.abc import Callable, Sequence

from limen.report.checks import comparisons, other_attacks, probes
from limen.report.checks.base import DEAD_SHARE, RISE, Check, Evidence
from limen.report.formatting import THIN
from limen.report.run import CellResult


def run_checks(cells: Sequence[CellResult]) -> list[Check]:
    done = [c for c in cells if c.done and c.attack != "none"]
    parts = {
        # success on other nets is no evidence of how well the search did on its own net
        "cells": [c for c in done if not c.victims and not c.diagnostic],
        "transfers": [c for c in done if c.victims],
        "audits": [c for c in done if c.diagnostic and "probes" in c.result],
        "cells and audits": [c for c in done if not c.victims],
    }
    checks = []
    for name, raised, means, do, comparers in CHECKS:
        found = [compare(parts[part]) for part, compare in comparers.items()]
        flags = [flag for _, flags in found for flag in flags]
        checks.append(Check(name, raised, means, do, sum(n for n, _ in found), flags))
    return checks


Compare = Callable[[list[CellResult]], Evidence]

CHECKS: list[tuple[str, str, str, str, dict[str, Compare]]] = [
    # name, raised if, means, what to do; part of the run -> the comparison made in it
    (
        "Noise control",
        "random noise of the same budget does as much harm as the attack, or more, in successes or in word "
        "error rate.",
        "The attack adds nothing over chance: it is broken or blocked, or the budget is so large that "
        "anything works.",
        "Add steps and restarts, inspect the gradients, or reduce the budget.",
        {"cells": comparisons.noise, "audits": probes.noise},
    ),
    (
        "Many steps beat one",
        f"a one-step attack succeeds on more samples (by {100 * RISE:g} points) than a many-step one under "
        "the same goal and budget.",
        "The longer search does not follow the loss, which is the usual sign of masked gradients.",
        "Change the step size, differentiate the defence honestly (BPDA, EOT), or try an attack without "
        "gradients.",
        {"cells": comparisons.one_step, "audits": probes.one_step},
    ),
    (
        "The attack knows the defence",
        "a defended model was attacked through the undefended one (attack_on_defense: false).",
        "The numbers hold only for an attacker who does not know the defence.",
        "Set attack_on_defense: true before claiming that the defence works.",
        {"cells": comparisons.unseen},
    ),
    (
        "Gradients are finite and not zero",
        f"more than {100 * DEAD_SHARE:g}{THIN}% of the gradients were zero, a probed one was not finite, or "
        "one was a million times the median.",
        "Zero: the model saturates, or one of its operations cannot be differentiated. Not finite: it "
        "divides by zero, or takes the root or the logarithm of zero. Very large: an operation is almost a "
        "discontinuity. In each case the attack had no direction to follow.",
        "Attack the logits instead of probabilities, give the operation a backward pass (BPDA), keep roots "
        "and logarithms away from zero, or use double precision.",
        {"cells": comparisons.dead, "audits": probes.gradients},
    ),
    (
        "Accuracy falls with the budget",
        f"accuracy rises by more than {100 * RISE:g} points, or never falls, when the budget grows.",
        "A larger budget contains the smaller one, so the search failed at the larger.",
        "Scale the step with the budget, add restarts, or start from the result of the smaller budget.",
        {"cells": comparisons.budget_grows},
    ),
    (
        "Random models are averaged",
        "a random model was attacked with one draw per gradient (no EOT), or the outputs of a model that is "
        "not declared random differ between two evaluations of the same samples.",
        "The gradient is mostly noise, so the model appears more robust than it is; a single draw may count "
        "as a success, or hide one.",
        "Set draws to 10 or more in the defence or in the attack; in a model of your own, declare random = "
        "True and draws = 10.",
        {"cells": comparisons.random_without_draws, "audits": probes.random_without_draws},
    ),
    (
        "Unbounded attacks always succeed",
        "an attack without a budget, or with one that allows everything, fails on some samples.",
        "Without a limit some change always works, so the search stopped too early.",
        "Add steps or search rounds, or test for masked gradients.",
        {"cells": comparisons.minimal, "audits": probes.everything_allowed},
    ),
    (
        "Gradients beat other searches",
        "a search without gradients, or an attack computed on another net or on the undefended one, succeeds "
        f"on {100 * RISE:g} points more than an attack along the gradient of the model itself.",
        "The gradient points in a wrong direction: it is masked, shattered or noisy.",
        "Attack through a smooth approximation of the defence (BPDA), average over draws (EOT), and report "
        "the stronger attack.",
        {
            "cells": other_attacks.guessing,
            "transfers": other_attacks.transfers,
            "audits": probes.no_gradients,
        },
    ),
    (
        "The loss rises with the steps",
        "the mean attack loss never rises above that of the clean samples, or falls again before the end.",
        "The steps are too long, or the gradient is that of another function than the one that is judged.",
        "Shorten the steps, and search for parts of the model that behave differently in the backward pass.",
        {"audits": probes.loss_rises},
    ),
    (
        "The attacks match a plain search",
        f"the attacks of the run, all together, succeed on {100 * RISE:g} points fewer of the probed samples "
        "than the plain search of the audit (pgd) under the same goal and budget.",
        "The attacks are too weak or broken: the model is less robust than the tables show.",
        "Add steps and restarts, leave the step size to the attack, or add pgd or auto_attack to the run.",
        {"cells and audits": other_attacks.keeps_up},
    ),
]
