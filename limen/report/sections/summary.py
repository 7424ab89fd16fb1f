"""What was run and what was found, in a few sentences."""

from limen.report.blocks import Prose, Section
from limen.report.checks.run import run_checks
from limen.report.formatting import duration, many
from limen.report.headline import Headline, headlines
from limen.report.run import Run


def summary(run: Run) -> Section:
    sentences = [_scope(run), *(_found(headline) for headline in headlines(run.done) if headline.worst)]
    if run.failed:
        verb = "is" if len(run.failed) == 1 else "are"
        sentences.append(f"{many(len(run.failed), 'cell')} failed and {verb} listed below.")
    sentences.append(_checks(run))
    return Section(blocks=[Prose(" ".join(s for s in sentences if s), "lede")], order=10, in_header=True)


def _scope(run: Run) -> str:
    nets = {c.net for c in run.cells}
    attacks = {c.attack for c in run.cells if c.attack != "none" and not c.diagnostic}
    defenses = {c.defense for c in run.cells if c.defense != "none"}
    what = f"applied {many(len(attacks), 'attack')} to" if attacks else "evaluated"
    behind = f", undefended and behind {many(len(defenses), 'defence')}" if defenses else ""
    seconds = duration(sum(c.seconds for c in run.cells))
    cells, samples = many(len(run.cells), "cell"), many(sum(c.n for c in run.done), "evaluated sample")
    return f"This run {what} {many(len(nets), 'model')}{behind}: {cells}, {samples}, {seconds} of computing."


def _found(headline: Headline) -> str:
    verb = "stays at" if headline.before == headline.worst else headline.verb
    change = headline.worst if verb == "stays at" else f"from {headline.before} to {headline.worst}"
    size = f" {headline.size}" if headline.size else ""
    sentence = f"{headline.what} of {headline.net} {verb} {change} under {headline.attack}{size}"
    if headline.union and headline.union != headline.worst:
        together = f"under all attacks within this budget together (worst of {headline.union_of})"
        sentence += f", and {'is' if verb == 'stays at' else 'to'} {headline.union} {together}"
    return sentence + "."


def _checks(run: Run) -> str:
    checks = run_checks(run.cells)
    flags, ran = ([c for c in checks if c.status in s] for s in (("flag",), ("flag", "pass")))
    if flags:
        raised = f"{len(flags)} of {len(ran)} attack sanity checks raised a flag"
        return f"{raised}: read them before you rely on the numbers."
    return f"All attack sanity checks that apply ({len(ran)} of {len(checks)}) passed." if ran else ""
