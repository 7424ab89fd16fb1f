"""What the attacker may change. `limen.budgets.snr(snr_db=30)` is the same as {"name": "snr", "snr_db":
30}."""

import sys

from limen.core.components import SpecFactory

sys.modules[__name__].__class__ = SpecFactory
