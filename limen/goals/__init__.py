"""What the attacker wants. `limen.goals.transcript(text="open the door")` is the same as {"name":
"transcript", "text": ...}."""

import sys

from limen.core.components import SpecFactory

sys.modules[__name__].__class__ = SpecFactory
