"""The attacks that are compared, and the call of each library."""

from collections.abc import Callable
from dataclasses import dataclass

import peers
from peers import INF
from starts import from_their_starts
from timing import Run


@dataclass
class Contest:
    """One attack as several libraries offer it."""

    name: str
    requested: int
    """Requested gradients."""
    runs: dict[str, Callable[[], Run]]
    n: int = 64
    """Pictures."""
    norm: float | None = None
    """The norm that minimal-norm attacks minimise. None: robust accuracy within the budget is compared."""
    repeats: int = 3
    """Number of runs; fewer for long attacks."""


def contests(eps: float, eps_l2: float, eps_l1: float) -> list[Contest]:
    linf, l2, l1 = ({"name": name, "eps": r} for name, r in (("linf", eps), ("l2", eps_l2), ("l1", eps_l1)))
    step, step_l2, mi = 2.5 * eps / 40, 2.5 * eps_l2 / 40, eps / 10
    return [
        Contest(
            "FGSM",
            1,
            {
                "limen": lambda: peers.limen(name="fgsm", budget=linf),
                "foolbox": lambda: peers.foolboxes("LinfFastGradientAttack", eps),
                "torchattacks": lambda: peers.torchattackses("FGSM", eps=eps),
                "ART": lambda: peers.art_fgsm(eps),
                "cleverhans": lambda: peers.cleverhans_fgsm(eps),
            },
            n=256,
            repeats=15,
        ),
        Contest(
            "PGD-linf-40",
            40,
            {
                "limen": lambda: peers.limen(name="pgd", steps=40, budget=linf),
                "foolbox": lambda: peers.foolboxes("LinfPGD", eps, abs_stepsize=step, steps=40),
                "torchattacks": lambda: peers.torchattackses("PGD", eps=eps, alpha=step, steps=40),
                "ART": lambda: peers.art_pgd(INF, eps, step),
                "cleverhans": lambda: peers.cleverhanses(eps, step, 40, INF),
                "secml-torch": lambda: peers.secml_pgd(eps, step, 40, "linf"),
            },
            n=128,
        ),
        Contest(
            "PGD-l2-40",
            40,
            {
                "limen": lambda: peers.limen(name="pgd", steps=40, budget=l2),
                "foolbox": lambda: peers.foolboxes("L2PGD", eps_l2, abs_stepsize=step_l2, steps=40),
                "torchattacks": lambda: peers.torchattackses("PGDL2", eps=eps_l2, alpha=step_l2, steps=40),
                "ART": lambda: peers.art_pgd(2, eps_l2, step_l2),
                "cleverhans": lambda: peers.cleverhanses(eps_l2, step_l2, 40, 2),
                "secml-torch": lambda: peers.secml_pgd(eps_l2, step_l2, 40, "l2"),
            },
            n=128,
        ),
        Contest(
            "PGD-l1-40",
            40,
            {
                "limen": lambda: peers.limen(name="pgd", steps=40, budget=l1),
                "foolbox": lambda: peers.foolboxes("L1PGD", eps_l1, abs_stepsize=2.5 * eps_l1 / 40, steps=40),
                "ART": lambda: peers.art_pgd(1, eps_l1, 2.5 * eps_l1 / 40),
            },
            repeats=9,
        ),
        Contest(
            "MI-FGSM-40",
            40,
            {
                "limen": lambda: peers.limen(name="mi_fgsm", steps=40, step_size=0.1, budget=linf),
                "foolbox": lambda: peers.foolboxes(
                    "LinfMomentumIterativeFastGradientMethod", eps, abs_stepsize=mi, steps=40
                ),
                "torchattacks": lambda: peers.torchattackses("MIFGSM", eps=eps, alpha=mi, steps=40),
                "ART": lambda: peers.arts(
                    "MomentumIterativeMethod", norm=INF, eps=eps, eps_step=mi, max_iter=40
                ),
            },
            n=128,
        ),
        Contest(
            "APGD-100",
            100,
            {
                "limen": lambda: peers.limen(name="apgd", budget=linf),
                "torchattacks": lambda: peers.torchattackses("APGD", eps=eps, steps=100),
                "ART": lambda: peers.arts(
                    "AutoProjectedGradientDescent", eps=eps, eps_step=2 * eps, max_iter=100, nb_random_init=1
                ),
                "pyautoattack": lambda: peers.pyautoattacks(eps, INF, "apgd-ce"),
            },
            n=128,
        ),
        Contest(
            "APGD-CE-100",
            100,
            {
                "limen": lambda: from_their_starts(peers.limen(name="apgd", loss="ce", budget=linf)),
                "torchattacks": lambda: peers.torchattackses("APGD", eps=eps, steps=100),
                "pyautoattack": lambda: peers.pyautoattacks(eps, INF, "apgd-ce"),
            },
            n=128,
        ),
        Contest(
            "APGD-DLR-100",
            100,
            {
                "limen": lambda: from_their_starts(peers.limen(name="apgd", loss="dlr", budget=linf)),
                "torchattacks": lambda: peers.torchattackses("APGD", eps=eps, steps=100, loss="dlr"),
                "pyautoattack": lambda: peers.pyautoattacks(eps, INF, "apgd-dlr"),
            },
            n=128,
        ),
        Contest(
            "APGD-l2-100",
            100,
            {
                "limen": lambda: peers.limen(name="apgd", budget=l2),
                "torchattacks": lambda: peers.torchattackses("APGD", norm="L2", eps=eps_l2, steps=100),
                "pyautoattack": lambda: peers.pyautoattacks(eps_l2, 2, "apgd-ce"),
            },
            n=128,
        ),
        Contest(
            "Square-1000",
            400,
            {
                "limen": lambda: peers.limen(name="square", queries=1000, budget=linf),
                "torchattacks": lambda: peers.torchattackses("Square", eps=eps, n_queries=1000),
                "ART": lambda: peers.arts("SquareAttack", eps=eps, max_iter=1000, nb_restarts=1),
                "pyautoattack": lambda: peers.pyautoattacks(eps, INF, "square", 1000),
            },
        ),
        Contest(
            "DeepFool-l2-50",
            50,
            {
                "limen": lambda: peers.limen(name="deepfool"),
                "foolbox": lambda: peers.foolboxes("L2DeepFoolAttack", steps=50, candidates=10),
                "torchattacks": lambda: peers.torchattackses("DeepFool", steps=50),
                "ART": lambda: peers.arts("DeepFool", max_iter=50, epsilon=1e-6, nb_grads=10),
            },
            norm=2,
            repeats=1,
        ),
        Contest(
            "C&W-l2 9 x 100",
            900,
            {
                "limen": lambda: peers.limen(name="cw_l2"),
                "foolbox": lambda: peers.foolboxes("L2CarliniWagnerAttack", steps=100),
                "torchattacks": lambda: peers.torchattackses("CW", c=1, steps=900, lr=0.01),
                "cleverhans": lambda: peers.cleverhans_cw(100),
            },
            norm=2,
            repeats=1,
        ),
        Contest(
            "EAD 9 x 100",
            900,
            {
                "limen": lambda: peers.limen(name="ead", decision="l1"),
                "foolbox": lambda: peers.foolboxes("EADAttack", steps=100, decision_rule="L1"),
                "torchattacks": lambda: peers.torchattackses("EADL1", max_iterations=100),
            },
            norm=1,
            repeats=1,
        ),
        Contest(
            "DDN-100",
            100,
            {
                "limen": lambda: peers.limen(name="ddn", steps=100),
                "foolbox": lambda: peers.foolboxes("DDNAttack", steps=100),
                "secml-torch": lambda: peers.secml_ddn(100),
            },
            n=128,
            norm=2,
            repeats=1,
        ),
        *(
            Contest(
                f"FMN-{name}-100",
                100,
                {
                    "limen": lambda name=name: peers.limen(name="fmn", norm=name, steps=100),
                    "foolbox": lambda theirs=theirs: peers.foolboxes(theirs, steps=100),
                    "secml-torch": lambda name=name: peers.secml_fmn(name, 100),
                },
                n=128,
                norm=p,
                repeats=1,
            )
            for name, theirs, p in (
                ("l2", "L2FMNAttack", 2),
                ("linf", "LInfFMNAttack", INF),
                ("l1", "L1FMNAttack", 1),
                ("l0", "L0FMNAttack", 0),
            )
        ),
        Contest(
            "FAB towards 9 x 100",
            900,
            {
                "limen": lambda: peers.limen(name="fab", targets=9, budget=linf),
                "torchattacks": lambda: peers.torchattackses("FAB", eps=eps, steps=100, multi_targeted=True),
                "pyautoattack": lambda: peers.pyautoattacks(eps, INF, "fab-t"),
            },
            n=128,
            repeats=1,
        ),
    ]


def auto_attacks(eps: float) -> list[Contest]:
    linf = {"name": "linf", "eps": eps}
    return [
        Contest(
            "AutoAttack",
            100,
            {
                "limen": lambda: from_their_starts(peers.limen(name="auto_attack", budget=linf)),
                "limen: cascade": lambda: peers.limen(name="cascade", budget=linf),
                "pyautoattack": lambda: peers.pyautoattacks(eps, INF),
            },
            n=128,
            repeats=2,
        )
    ]  # torchattacks has it too, but makes 10 steps of 100, docs/peers.md


BUDGETS = {
    ("mnist", False): (0.1, 1.5, 10.0),
    ("mnist", True): (0.3, 2.0, 10.0),
    ("cifar10", False): (2 / 255, 0.25, 5.0),
    ("cifar10", True): (8 / 255, 0.5, 12.0),
}
"""Radii in linf, l2 and l1 of each network."""
