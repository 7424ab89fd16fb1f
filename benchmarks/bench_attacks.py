"""Speed and strength of our attacks compared with foolbox, torchattacks, ART, cleverhans, pyautoattack and
secml-torch, in one run.

python benchmarks/bench_attacks.py [--only PGD,APGD] [--data mnist,cifar10] [--repeats 1] [--no-write]

The peers are installed in a separate environment, .venv-peers, which the first run creates (setup_peers.sh);
this file then restarts itself in it. README.md describes the measurement; the tables are printed and written to
docs/benchmarks.md.
"""

import argparse
import json
import platform
import statistics
import time
from importlib.metadata import version
from typing import Any

from environment import HERE, in_peers_environment

in_peers_environment()

import peers  # noqa: E402
import torch  # noqa: E402
from contests import BUDGETS, Contest, auto_attacks, contests  # noqa: E402
from timing import Row, measure  # noqa: E402
from victim import pictures, trained  # noqa: E402

PEERS = (
    "foolbox",
    "torchattacks",
    "adversarial-robustness-toolbox",
    "cleverhans",
    "pyautoattack",
    "secml-torch",
)
RESULTS = HERE.parent / "build" / "benchmarks"
DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--repeats",
        type=int,
        help="largest number of repeats; by default 1 or 2 for long attacks, 3 to 15 for short ones",
    )
    parser.add_argument(
        "--only", default="", help="attacks whose name begins with one of these, separated by commas"
    )
    parser.add_argument("--data", default="mnist,cifar10")
    parser.add_argument("--network", default="undefended,robust")
    parser.add_argument("--no-write", action="store_true", help="do not write docs/benchmarks.md")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for data in arguments.data.split(","):
        x, y = pictures(data, "test")
        for robust in (name == "robust" for name in arguments.network.split(",")):
            network, label = (
                trained(data, robust),
                f"{DATA[data]}, {'adversarially trained' if robust else 'undefended'}",
            )
            with torch.no_grad():
                right = network(x[:2000]).argmax(1) == y[:2000]
            radii = ", ".join(
                f"{r:.3g} ({name})"
                for r, name in zip(BUDGETS[data, robust], ("linf", "l2", "l1"), strict=True)
            )
            head = f"{label}: {right.float().mean():.1%} of 2,000 test pictures right; radii {radii}"
            print(head, flush=True)
            for contest in contests(*BUDGETS[data, robust]) + auto_attacks(BUDGETS[data, robust][0]):
                if contest.name.startswith(tuple(arguments.only.split(","))):
                    n = contest.n // (
                        2 if data == "cifar10" else 1
                    )  # these networks cost two to three times as much
                    # a picture that is already wrong is at distance 0: no test of an attack that searches for
                    # the smallest change
                    i = torch.arange(n) if contest.norm is None else right.nonzero().squeeze(1)[:n]
                    started, rows = (
                        time.time(),
                        measured(contest, label, network, x[i], y[i], arguments.repeats),
                    )
                    if not arguments.no_write:
                        found = {"rows": [cells(row) for row in rows], "summary": summary_row(rows)}
                        store(
                            f"{data}_{'robust' if robust else 'standard'}",
                            head,
                            contest.name,
                            found,
                            time.time() - started,
                        )
                        write()


def store(name: str, head: str, contest: str, found: dict[str, Any], duration_s: float) -> None:
    """Store the results of one contest on one network for the page; contests may be measured on different days."""
    path = RESULTS / f"{name}.json"
    stored = json.loads(path.read_text()) if path.exists() else {"contests": {}}
    stored["head"], stored["contests"][contest] = head, {**found, "minutes": duration_s / 60}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(stored, indent=1))
    temporary.replace(path)  # atomic: another process may be writing the page


def measured(
    contest: Contest,
    label: str,
    network: torch.nn.Module,
    x: torch.Tensor,
    y: torch.Tensor,
    repeats: int | None,
) -> list[Row]:
    """The libraries take turns in every repeat."""
    runs = {library: make() for library, make in contest.runs.items()}
    rows = {library: Row(contest.name, label, library) for library in runs}
    for _ in range(contest.repeats if repeats is None else min(repeats, contest.repeats)):
        for library, run in list(runs.items()):
            reports_success = library.split(":")[0] in peers.REPORTING or (contest.name == "AutoAttack")
            try:
                measure(
                    rows[library],
                    run,
                    network,
                    x,
                    y,
                    requested=contest.requested,
                    norm=contest.norm,
                    reports_success=reports_success,
                )
            except Exception as error:  # a peer that fails is named and left out of this contest
                print(
                    f"{contest.name}, {label}: {library} failed: {type(error).__name__}: {error}", flush=True
                )
                del runs[library], rows[library]
    for row in rows.values():
        row.minimal = contest.norm is not None
        print("  ".join(cells(row)), flush=True)
    print(summary_row(list(rows.values())), flush=True)
    return list(rows.values())


def strength(row: Row) -> str:
    if not row.minimal:
        return f"robust {1 - row.success:.1%}"
    return (
        f"fooled {row.success:.0%}, median {row.median:.4g}, mean {float(row.sizes[row.fooled].mean()):.4g}"
    )


def cells(row: Row) -> list[str]:
    show = lambda v: f"{sorted(v)[len(v) // 2]:.2f}" + (f" ({min(v):.2f}–{max(v):.2f})" if len(v) > 1 else "")
    left = "yes" if row.grads_left else "no"
    return [
        row.attack,
        row.network,
        row.library,
        show(row.requested),
        show(row.made),
        row.calls,
        strength(row),
        left,
    ]


def summary_row(rows: list[Row]) -> str:
    """One row of the summary: our time over that of the fastest peer, our strength and that of the strongest."""
    ours = [r for r in rows if r.library.startswith("limen")]
    theirs = [r for r in rows if not r.library.startswith("limen")]
    if not ours or not theirs:
        return ""
    lines = []
    for own in ours:
        if own.minimal:
            best = min(theirs, key=lambda r: (-r.success, r.median))
        else:
            best = max(theirs, key=lambda r: r.success)
        fastest = min(theirs, key=lambda r: r.time)
        name = own.attack + own.library.removeprefix("limen")
        ratios = f"{own.time / fastest.time:.2f} ({fastest.library}) | {statistics.median(own.made):.2f}"
        lines.append(
            f"| {name} | {own.network} | {ratios} | {strength(own)} | {strength(best)} ({best.library}) |"
        )
    return "\n".join(lines)


def write() -> None:
    """Write the page from all measurements so far."""
    found = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"), reverse=True)]
    order = [c.name for c in contests(1, 1, 1) + auto_attacks(1)]
    results = [one["contests"][name] for one in found for name in order if name in one["contests"]]
    heads = [
        f"- {one['head']}; {sum(c['minutes'] for c in one['contests'].values()):.0f} min" for one in found
    ]
    columns = [
        "attack",
        "network",
        "library",
        "time / bare, calls requested",
        "time / bare, calls made",
        "forward / backward per picture",
        "strength",
        "leaves p.grad",
    ]
    lines = [line for one in results for line in one["rows"]]
    table = ["| " + " | ".join(line) + " |" for line in [columns, ["---"] * len(columns), *lines]]
    summary = [
        "| attack | network | our time / time of the fastest peer | our time / bare loop of our calls | "
        "our strength | strength of the strongest peer |",
        "|---|---|---|---|---|---|",
        *(one["summary"] for one in results if one["summary"]),
    ]
    versions = ", ".join(f"{name} {version(name)}" for name in PEERS)
    page = f"""# Benchmarks

Written by `make bench`; `benchmarks/README.md` describes the measurement. One thread, CPU time, on a busy machine: one run, or the median
over the repeats with their range in brackets; the error of a single run is about 10 %.
torch {torch.__version__}, {versions}, Python {platform.python_version()}. The networks:

{chr(10).join(heads)}

## Summary

{chr(10).join(summary)}

Fixed budget: robust accuracy; lower is stronger. Minimal norm, over the pictures that the network classifies correctly: share fooled, median
norm, in which a picture that is not fooled counts as infinitely far, and mean norm of the fooled ones. Every time includes the pass that
determines which pictures are fooled. FGSM: our clean pass, which also finds the pictures that are already wrong, provides the gradient;
if many are wrong, a fresh pass over the others does. AutoAttack and our cascade are compared with pyautoattack only, which makes the calls of
the authors' code; torchattacks makes a tenth of its steps ([peers](peers.md)). EAD: ours makes 9 x 25 steps. APGD-100 and APGD-l2-100: ours
maximises its softened margin, the others the cross-entropy, as by the default of each library. APGD-CE, APGD-DLR and AutoAttack are the same
algorithm in all libraries, so ours starts at the random points of pyautoattack; for the other attacks each library draws its own.
The defaults of deepfool, cw_l2 and ead were chosen on the first pictures of the test sets, which are also those of these tables.

## All measurements

{chr(10).join(table)}

*Calls requested*: a bare loop of the requested number of gradients of the full batch (AutoAttack: 100; Square: 1000 queries count as 400).
*Calls made*: a bare loop of exactly the calls that the attack made, with their batch sizes; the part above 1 is overhead.
"""
    (HERE.parent / "docs" / "benchmarks.md").write_text(page)
    print("written: docs/benchmarks.md")


if __name__ == "__main__":
    main()
