"""Training objectives: the loss of a training step. `limen.objectives.trades(beta=6)` is the same as
{"name": "trades", "beta": 6}."""

import sys

from limen.core.components import SpecFactory

sys.modules[__name__].__class__ = SpecFactory
