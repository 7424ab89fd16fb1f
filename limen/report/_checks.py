"""The honest-attacker checks: signs that an attack was weak and the numbers flatter the model.

After Carlini et al. 2019, https://arxiv.org/abs/1902.06705, and the warnings of AutoAttack. Computed from summaries and rows alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from limen.report import _audit, _evidence
from limen.report._evidence import DEAD_SHARE, RISE, Evidence
from limen.report._run import Cell
from limen.report._words import THIN


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


def run_checks(cells: Sequence[Cell]) -> list[Check]:
    # what transfers to other nets says nothing about how well the search did
    done = [c for c in cells if c.done and c.attack != "none" and not c.victims and c.task != "audit"]
    audits = [c for c in cells if c.done and c.task == "audit"]
    checks = []
    for name, raised, means, do, look, probe in CHECKS:
        found = [each(them) for each, them in ((look, done), (probe, audits)) if each is not None]
        checks.append(Check(name, raised, means, do, sum(n for n, _ in found), [flag for _, flags in found for flag in flags]))
    return checks


Look = Callable[[list[Cell]], Evidence]

CHECKS: list[tuple[str, str, str, str, Look | None, Look | None]] = [
    # name, raised if, means, what to do; what looks at the cells of the experiment, and at the probes of the task audit
    (
        "Noise control",
        "random noise of the same budget does at least as much harm as the attack: samples fooled, or word error rate.",
        "The attack adds nothing over chance: it is broken or blocked, or the budget is so large that anything works.",
        "Add steps and restarts, look at the gradients, or shrink the budget.",
        _evidence.noise,
        _audit.noise,
    ),
    (
        "Many steps beat one",
        f"a one-step attack fools more samples (by {100 * RISE:g} points) than a many-step one under the same goal and budget.",
        "The longer search gets lost, the usual sign of masked gradients.",
        "Change the step size, differentiate the defence honestly (BPDA, EOT), or try an attack without gradients.",
        _evidence.one_step,
        _audit.one_step,
    ),
    (
        "The attack saw the defence",
        "a defended model was attacked through the undefended one (attack_on_defense: false).",
        "The numbers hold only against an attacker who does not know of the defence.",
        "Set attack_on_defense: true before calling the defence a defence.",
        _evidence.unseen,
        None,
    ),
    (
        "Living gradients",
        f"more than {100 * DEAD_SHARE:g}{THIN}% of the gradients were zero or not finite, or one was a million times the median.",
        "The model saturates or explodes, or a step of it cannot be differentiated; the attack walked blind.",
        "Attack the logits rather than probabilities, give the defence a backward pass, or use double precision.",
        _evidence.dead,
        _audit.gradients,
    ),
    (
        "Accuracy falls with the budget",
        f"accuracy rises by more than {100 * RISE:g} points, or never falls, as the attacker may do more.",
        "A larger budget contains the smaller one, so the search failed at the larger.",
        "Scale the step with the budget, add restarts, or start from the smaller budget’s result.",
        _evidence.budget_grows,
        None,
    ),
    (
        "Random models are averaged",
        "a model that answers at random was attacked with one draw per gradient (no EOT).",
        "The gradient is mostly noise, and the defence looks better than it is.",
        "Set draws to 10 or more in the defence.",
        _evidence.random_without_draws,
        _audit.random_without_draws,
    ),
    (
        "Unbounded attacks always win",
        "an attack without a budget, or with one that allows everything, fools fewer than all samples.",
        "With no limit some change always works, so the search stopped too early.",
        "Add steps or search rounds, or look for masked gradients.",
        _evidence.minimal,
        _audit.everything_allowed,
    ),
    (
        "Gradients beat guessing",
        f"a search without gradients, or the attack of the undefended net, fools {100 * RISE:g} points more than the gradient does.",
        "The gradient points the wrong way: it is masked, shattered or drowned in noise.",
        "Attack through a smooth stand-in of the defence (BPDA), average over draws (EOT), and count the stronger attack.",
        None,
        _audit.no_gradients,
    ),
    (
        "The loss rises with the steps",
        "the mean loss never rises above that of the clean samples, or falls again on the way.",
        "The steps are too long, or the gradient belongs to another function than the one that is judged.",
        "Shorten the steps, and look for parts of the model that answer otherwise in the backward pass.",
        None,
        _audit.loss_rises,
    ),
]
