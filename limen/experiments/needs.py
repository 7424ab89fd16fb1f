"""What a cell needs of the machine that computes it, from its resolved spec: no model and no data set is
opened."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limen.attacks.engine.spec import AttackSpec
from limen.core.components import parse
from limen.models.base.model import ModelOptions
from limen.tasks.base.task import parse_task

PROCESS_MB = 250
"""Memory of a process that has loaded Python, torch and Limen (measured: 230), in MB."""


@dataclass(frozen=True)
class Needs:
    """Resources of a cell."""

    cores: int
    """Cores that the cell can use well."""
    memory_mb: int
    """Memory of the process that computes it, in MB."""
    gradients: float
    """Gradients that the cell computes at most: for all samples if its data has a limit, otherwise for
    one."""


def needs_of(spec: dict[str, Any], batch_size: int) -> Needs:
    """The needs of a cell with this spec, computed in batches of this size."""
    limit = spec["net"]["data"].get("limit")
    models = list(_models(spec))
    batch = min(batch_size, limit or batch_size)
    return Needs(
        cores=max(model.cores for model in models),
        memory_mb=PROCESS_MB + sum(model.memory_mb(batch) for model in models),
        gradients=gradients_per_sample(spec) * (limit or 1),
    )


def _models(spec: dict[str, Any]) -> Iterator[ModelOptions]:
    """Options of the net and of the surrogates that its attack is computed on."""
    surrogate = (spec["attack"] or {}).get("surrogate") or {}
    stop = surrogate.get("stop")
    for one in [spec["net"]["model"], *surrogate.get("models", []), *([stop] if stop else [])]:
        options = parse("models", one)[1]
        assert isinstance(options, ModelOptions)
        yield options


def gradients_per_sample(spec: dict[str, Any]) -> float:
    """About how many gradients a cell computes for each sample if no search stops early."""
    gradients = 1.0
    if spec["attack"] is not None:
        attack = AttackSpec.parse(spec["attack"])
        gradients += attack.options.cost()
        gradients *= attack.draws or max(
            (getattr(parse("defenses", t)[1], "draws", 1) for t in attack.through), default=1
        )
    return parse_task(spec["task"])[1].cost(gradients)


def jobs_that_fit(jobs: int, cells_mb: Sequence[int], available_mb: int | None) -> int:
    """The number of jobs, at most `jobs` and at least 1, of which even the largest cells fit into memory side
    by side. `available_mb` is None if the free memory is unknown: then it is `jobs`."""
    while available_mb is not None and jobs > 1 and most_memory_mb(jobs, cells_mb) > available_mb:
        jobs -= 1
    return jobs


def most_memory_mb(jobs: int, cells_mb: Sequence[int]) -> int:
    """Memory of the `jobs` largest cells, in MB."""
    return sum(sorted(cells_mb, reverse=True)[:jobs])


def available_memory_mb(root: Path = Path("/")) -> int | None:
    """Memory that new processes can use without swapping, in MB: what Linux reports, or less if a container
    has a limit. None on systems that do not report it."""
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None
    try:
        group = root / "sys/fs/cgroup"
        limit = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        free = min(free, (next(limit) - next(limit)) / 2**20)
    except (OSError, ValueError):  # no container, or "max": no limit
        pass
    return max(0, int(free))


def memory_text(mb: float) -> str:
    """0.7 GB, 12 GB."""
    gb = mb / 1000
    return f"{gb:.1f} GB" if gb < 10 else f"{gb:.0f} GB"
