"""The data sets of the samples in a part."""

from limen.report.blocks import Prose, Section
from limen.report.formatting import listed
from limen.report.parts import Part
from limen.report.run import component


def data_sets(part: Part) -> Section | None:
    nets = [component(c.spec.get("net")) for c in part.cells]
    names = dict.fromkeys(str(component(net.get("data")).get("name") or "") for net in nets)
    known = [name for name in names if name]
    return Section(blocks=[Prose(f"Data: {listed(known)}", "muted under")], order=10) if known else None
