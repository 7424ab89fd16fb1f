"""What a defence declares: the models it protects, whether it draws at random, how it changes the training,
and whether it has weights of its own."""

from typing import Any, ClassVar

from pydantic import Field

from limen.core.options import Options
from limen.core.types import Kind, Output


class DefenseOptions(Options):
    """Class variables declare facts that are the same for all values of the options."""

    kinds: ClassVar[tuple[Kind, ...]] = ("picture", "clip")
    """Samples of the models that it can protect."""
    outputs: ClassVar[tuple[Output, ...]] = ("class", "transcript")
    """Answers of the models that it can protect."""
    random: ClassVar[bool] = False
    """True if two calls on the same sample may differ. Such options derive from RandomDefenseOptions."""
    encloses: ClassVar[bool] = False
    """True if the defence works on answers only: then it encloses all other defences of a list, and every
    call draws anew from all of them. False: it is applied at its place in the list."""
    example_after: ClassVar[tuple[dict[str, Any], ...]] = ()
    """Defences that must come before it in a list, as documentation and contract tests use them."""

    def training(self) -> dict[str, Any] | None:
        """The objective under which the net must be trained, {name: ...}; null if the defence does not change
        the training. The task `train` uses it."""
        return None


class RandomDefenseOptions(DefenseOptions):
    """Options of a defence that draws at random at every call."""

    random: ClassVar[bool] = True

    draws: int = Field(default=8, ge=1)
    """Random draws over which an attacker averages gradients (EOT)."""


class WeightedDefenseOptions(DefenseOptions):
    """Options of a defence with a network of its own, loaded as the weights of models are."""

    weights: str = "zoo"
    """"zoo": the weights shipped for this defense ("zoo:name": another set of them); "random": as
    initialised; otherwise the path of a .safetensors or .pth file."""
    init_seed: int = 0
    """Seed of the random weights."""
