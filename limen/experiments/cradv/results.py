"""CrAdv's results tree: <results_path>/<net_id>/<task>[_<defense>][_<attack>]/result_<n>.json, with extra
files and plots in the same folder.

Extra files are collected in result_<n>.part, which is renamed at the end; the JSON file is written last and
atomically. A stopped run leaves no incomplete result, and an existing result is never overwritten.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from limen.core.errors import missing_package
from limen.experiments.cradv import plan
from limen.experiments.folder import write_json


@dataclass
class ResultFiles:
    """Files of one result, with the first free number of its folder."""

    folder: Path
    number: int = field(init=False)

    def __post_init__(self) -> None:
        self.number = 1
        while (self.folder / f"result_{self.number}.json").exists() or (
            self.folder / f"result_{self.number}"
        ).exists():
            self.number += 1
        shutil.rmtree(self._part, ignore_errors=True)

    @property
    def _part(self) -> Path:
        return self.folder / f"result_{self.number}.part"

    @property
    def extra(self) -> Path:
        """Folder of files such as pictures."""
        self._part.mkdir(parents=True, exist_ok=True)
        return self._part

    def extra_below(self, name: str) -> Path:
        folder = self.extra / name
        folder.mkdir(exist_ok=True)
        return folder

    def keep_extra(self) -> None:
        if self._part.exists():
            os.replace(self._part, self.folder / f"result_{self.number}")

    def drop_extra(self) -> None:
        shutil.rmtree(self._part, ignore_errors=True)

    def path(self, ending: str) -> Path:
        return self.folder / f"result_{self.number}{ending}"

    def save(self, content: Any) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.keep_extra()
        write_json(self.path(".json"), content)


def folder_of(
    root: Path, cell: plan.CradvCell, defense: plan.Defense | None, attack: plan.Attack | None
) -> Path:
    name = (
        cell.task.task_name + (f"_{defense.name}" if defense else "") + (f"_{attack.name}" if attack else "")
    )
    return root / cell.net.id / name


def record(cell: plan.CradvCell, result: Any, seconds: float) -> dict[str, Any]:
    """Content of the JSON file."""
    defense, attack = (None, None) if cell.task.exec_multi else (cell.defenses[0], cell.attacks[0])
    attack_data = None
    if attack is not None:
        attack_data = dict(attack.data)
        if attack.surrogate is not None and attack.surrogate.id != cell.net.id:
            attack_data["specific_model"] = attack.surrogate.data
    return {
        "task_data": cell.task_data,
        "net_data": cell.net.data,
        "attack_data": attack_data,
        "defense_data": defense.data if defense else None,
        "exec_time": duration(seconds),
        "result": result,
    }


def duration(seconds: float) -> str:
    total = int(seconds)
    return f"{total // 3600}h {total % 3600 // 60}m {total % 60}s"


def plot(
    path: Path, x_label: str, y_label: str, curves: Mapping[str, tuple[Sequence[float], Sequence[float]]]
) -> None:
    """Save one figure with all curves: name -> (x, y)."""
    figure = figure_class()()
    axes = figure.subplots()
    for name, (x, y) in curves.items():
        axes.plot(x, y, label=name)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    if curves:
        axes.legend()
    part = path.with_name(path.name + ".part")
    figure.savefig(part, format="png")
    os.replace(part, path)


def figure_class() -> Any:
    """matplotlib's Figure, used without pyplot, which has global state and may open windows."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise missing_package("a CrAdv file with plots", "matplotlib", "plots") from None
    return Figure


def plot_variable(place: ResultFiles, cell: plan.CradvCell, result: dict[str, Any], say: plan.Say) -> None:
    """Plot the result's plot_keys against the attack's variable."""
    data, curves = cell.task, {}
    for key in data.plot_keys:
        points = [(value, one.get(key)) for value, one in result["results"].items()]
        if all(_number(x) and _number(y) for x, y in points):
            curves[key] = ([float(x) for x, _ in points], [float(y) for _, y in points])
        else:
            say(
                f"plot_keys: {key} against {result['variable_name']} is not plotted: not all of their "
                "values are numbers."
            )
    place.folder.mkdir(parents=True, exist_ok=True)
    if data.plot_together and curves:
        plot(place.path("_plot.png"), result["variable_name"], data.task_name, curves)
    if not data.plot_together:
        for k, key in enumerate(data.plot_keys):
            if key in curves:
                plot(place.path(f"_plot{k}.png"), result["variable_name"], data.task_name, {key: curves[key]})


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
