"""What every attack declares in addition to the options of its search: its needs, guarantees and cost."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from limen.core.options import Options

if TYPE_CHECKING:
    from torch import Tensor

    from limen.attacks.engine.problem import Problem

FORWARD = 1 / 3
"""Cost of a forward pass, as a share of that of a gradient (a forward and a backward pass)."""


@dataclass(frozen=True)
class LinearPromise:
    """What an attack promises on a linear model of two classes, for which the smallest change is known."""

    outside: float | None = 1.01
    """It succeeds at this multiple of the exact radius; None: it promises no success."""
    norms: tuple[str, ...] = ("linf", "l2", "l1")
    """Budgets for which it promises that."""
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Budget -> options that the promise needs."""


class AttackOptions(Options):
    """Base class of the options of every attack.

    A subclass overrides what differs. Facts that hold for every choice of options are class attributes; facts
    that depend on the options are properties.
    """

    universal: ClassVar[bool] = False
    """One perturbation serves all samples: `craft` finds it on other samples, and the attack only applies
    it."""
    minimal: ClassVar[bool] = False
    """Seeks the smallest change that reaches the goal; a budget is a limit to it."""
    own_limit: ClassVar[bool] = False
    """An option of its own limits the change."""
    searches: ClassVar[bool] = True
    """The change depends on the model. False for controls and for samples made elsewhere."""
    starts_clean: ClassVar[bool] = False
    """The first gradient is computed at the clean samples, so the clean forward pass can serve it."""
    changes_every_sample: ClassVar[bool] = False
    """Samples that reach the goal unchanged are changed, too."""
    kinds: ClassVar[tuple[str, ...]] = ("picture", "clip")
    """Kinds of samples that the attack takes."""
    compares_logits: ClassVar[bool] = False
    """Works on differences of logits, so a saturated softmax does not hide the gradient."""
    promise: ClassVar[LinearPromise] = LinearPromise()
    """Guaranteed success on a linear model; the contract tests check it."""
    quick: ClassVar[dict[str, Any]] = {}
    """Options for a quick try that still takes every kind of step; the contract tests use them."""
    variants: ClassVar[tuple[dict[str, Any], ...]] = ()
    """Further choices of options that the contract tests try, because they change what is computed."""

    @property
    def uses_gradients(self) -> bool:
        """Whether the model is differentiated. False for attacks that only evaluate it."""
        return True

    @property
    def needs_budget(self) -> bool:
        """Whether the attack refuses to run without a budget."""
        return not (self.minimal or self.own_limit)

    @property
    def continues_after_success(self) -> bool:
        """Whether a sample that reaches the goal is still searched: for a higher loss, a larger margin, or
        because every sample is changed."""
        return self.changes_every_sample

    @property
    def crafting_samples(self) -> int | None:
        """Universal attacks: number of training samples that an experiment crafts on; None takes all."""
        return None

    def cost(self, classes: int | None = None) -> float:
        """Gradients per sample, at most, if no sample leaves early; a forward pass counts as a third.
        `classes`: how many the model has; if that is unknown, an attack with a gradient per class counts
        one."""
        return 0.0 if self.universal else 1.0

    def crafting_cost(self) -> float:
        """Universal attacks: gradients per crafting sample, at most."""
        return 0.0

    def craft(self, problem: "Problem") -> "dict[str, Tensor]":
        """Universal attacks: find the perturbation on these samples; the attack receives it as `crafted`."""
        raise NotImplementedError(f"{type(self).__name__} declares `universal` but no method `craft`.")

    def facts(self) -> dict[str, bool]:
        """What a run folder records about the attack (`attack_info` in cell.json)."""
        return {
            "universal": self.universal,
            "minimal": self.minimal,
            "own_limit": self.own_limit,
            "searches": self.searches,
            "uses_gradients": self.uses_gradients,
        }
