"""The honest-attacker checks: signs that an attack was weak and the numbers flatter the model.

After Carlini et al. 2019, https://arxiv.org/abs/1902.06705, and the warnings of AutoAttack. Computed from
summaries and rows alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from limen.report import audit, evidence, rivals
from limen.report.evidence import DEAD_SHARE, RISE, Evidence
from limen.report.formatting import THIN
from limen.report.run import CellResult


@dataclass(frozen=True)
class Check:
    name: str
    raised_if: str
    means: str
    do: str
    compared: int
    flags: list[str]

    @property
    def status(self) -> str:
        return "flag" if self.flags else "pass" if self.compared else "not run"


def run_checks(cells: Sequence[CellResult]) -> list[Check]:
    done = [c for c in cells if c.done and c.attack != "none"]
    parts = {
        # what transfers to other nets says nothing about how well the search did
        "cells": [c for c in done if not c.victims and c.task != "audit"],
        "transfers": [c for c in done if c.victims],
        "audits": [c for c in done if c.task == "audit"],
        "cells and audits": [c for c in done if not c.victims],
    }
    checks = []
    for name, raised, means, do, looks in CHECKS:
        found = [look(parts[part]) for part, look in looks.items()]
        checks.append(
            Check(
                name,
                raised,
                means,
                do,
                sum(n for n, _ in found),
                [flag for _, flags in found for flag in flags],
            )
        )
    return checks


Look = Callable[[list[CellResult]], Evidence]

CHECKS: list[tuple[str, str, str, str, dict[str, Look]]] = [
    # name, raised if, means, what to do; what looks at which part of the run
    (
        "Noise control",
        "random noise of the same budget does as much harm as the attack, or more: successes, or word error "
        "rate.",
        "The attack adds nothing over chance: it is broken or blocked, or the budget is so large that "
        "anything works.",
        "Add steps and restarts, look at the gradients, or shrink the budget.",
        {"cells": evidence.noise, "audits": audit.noise},
    ),
    (
        "Many steps beat one",
        f"a one-step attack succeeds on more samples (by {100 * RISE:g} points) than a many-step one under "
        "the same goal and budget.",
        "The longer search gets lost, the usual sign of masked gradients.",
        "Change the step size, differentiate the defence honestly (BPDA, EOT), or try an attack without "
        "gradients.",
        {"cells": evidence.one_step, "audits": audit.one_step},
    ),
    (
        "The attack saw the defence",
        "a defended model was attacked through the undefended one (attack_on_defense: false).",
        "The numbers hold only against an attacker who does not know of the defence.",
        "Set attack_on_defense: true before calling the defence a defence.",
        {"cells": evidence.unseen},
    ),
    (
        "Living gradients",
        f"more than {100 * DEAD_SHARE:g}{THIN}% of the gradients were zero, a probed one was not finite, or "
        "one was a million times the median.",
        "Zero: the model saturates, or a step of it cannot be differentiated. Not finite: it divides by zero "
        "or takes the root or the logarithm of it. Exploding: a part of it is all but a jump. In each case "
        "the attack walked blind.",
        "Attack the logits rather than probabilities, give the step a backward pass (BPDA), keep roots and "
        "logarithms away from zero, or use double precision.",
        {"cells": evidence.dead, "audits": audit.gradients},
    ),
    (
        "Accuracy falls with the budget",
        f"accuracy rises by more than {100 * RISE:g} points, or never falls, as the attacker may do more.",
        "A larger budget contains the smaller one, so the search failed at the larger.",
        "Scale the step with the budget, add restarts, or start from the smaller budget’s result.",
        {"cells": evidence.budget_grows},
    ),
    (
        "Random models are averaged",
        "a model that answers at random was attacked with one draw per gradient (no EOT), or a model that "
        "does not call itself random answers the same samples otherwise when it is asked again.",
        "The gradient is mostly noise, and the model looks better than it is; a lucky draw may count as a "
        "success, or hide one.",
        "Set draws to 10 or more in the defence, or in the attack; a model of your own says random = True "
        "and draws = 10.",
        {"cells": evidence.random_without_draws, "audits": audit.random_without_draws},
    ),
    (
        "Unbounded attacks always win",
        "an attack without a budget, or with one that allows everything, fails on some samples.",
        "With no limit some change always works, so the search stopped too early.",
        "Add steps or search rounds, or look for masked gradients.",
        {"cells": evidence.minimal, "audits": audit.everything_allowed},
    ),
    (
        "Gradients beat guessing",
        "a search without gradients, or an attack computed on another net or on the undefended one, succeeds "
        f"on {100 * RISE:g} points more than the gradient of the model itself does.",
        "The gradient points the wrong way: it is masked, shattered or drowned in noise.",
        "Attack through a smooth stand-in of the defence (BPDA), average over draws (EOT), and count the "
        "stronger attack.",
        {"cells": rivals.guessing, "transfers": rivals.transfers, "audits": audit.no_gradients},
    ),
    (
        "The loss rises with the steps",
        "the mean loss never rises above that of the clean samples, or falls again on the way.",
        "The steps are too long, or the gradient belongs to another function than the one that is judged.",
        "Shorten the steps, and look for parts of the model that answer otherwise in the backward pass.",
        {"audits": audit.loss_rises},
    ),
    (
        "The attacks keep up with a plain search",
        f"the attacks of the run, all together, succeed on {100 * RISE:g} points fewer of the probed samples "
        "than the plain search of the audit (pgd) under the same goal and budget.",
        "The attacks are too weak, or broken: the model is less robust than the tables say.",
        "Add steps and restarts, leave the step size to the attack, or add pgd or auto_attack to the run.",
        {"cells and audits": rivals.keeps_up},
    ),
]
