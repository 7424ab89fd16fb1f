"""What each attacker knows, wants and may do."""

from limen.report.blocks import Definitions, Section
from limen.report.parts import Part
from limen.report.threats import threats


def threat_model(part: Part) -> Section | None:
    pairs = [(", ".join(threat.attacks), threat.sentence) for threat in threats(part.cells)]
    return Section("Threat model", [Definitions(pairs, "threats")], order=20) if pairs else None
