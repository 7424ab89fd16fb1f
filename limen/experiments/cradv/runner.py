"""Runs CrAdv's task files (https://github.com/diegoirigaray/CrAdv) unchanged and writes its results tree; see
docs/cradv.md."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from limen.core.errors import UserError
from limen.defenses.base.compose import defended
from limen.experiments.cradv import plan, schema
from limen.experiments.cradv.attacks import craft
from limen.experiments.cradv.check import check
from limen.experiments.cradv.finished import ResultIndex, keys, newest
from limen.experiments.cradv.nets import Opened, Opener, View, mapped
from limen.experiments.cradv.results import ResultFiles, folder_of, plot, plot_variable, record
from limen.experiments.cradv.samples import samples
from limen.experiments.cradv.tasks import SEED, Run, accuracy, constrained
from limen.experiments.cradv.train import train
from limen.experiments.engine import Progress
from limen.experiments.lock import locked


def is_cradv(content: dict[str, Any]) -> bool:
    """True if the file is one of CrAdv's: its tasks have `task_data`."""
    tasks = content.get("tasks")
    return isinstance(tasks, list) and any(isinstance(t, dict) and "task_data" in t for t in tasks)


def run_cradv(
    content: dict[str, Any],
    file: Path,
    *,
    mapping: dict[str, str],
    out: Path | None,
    limit: int | None,
    device: str,
    progress: Progress,
    resume: bool = False,
    exact: bool = False,
) -> Path:
    """Run every cell, with `resume` those without a result; returns the results folder. `mapping` replaces
    the start of paths, `limit` is the number of samples of every data set, `exact` searches and
    counts as CrAdv does."""
    say = _once(progress.say)
    config, cells = plan.read_plan(mapped(content, mapping), str(file), say)
    exact = exact or config.cradv_exact
    named = out or (Path(config.results_path) if config.results_path else None)
    root = named or (newest(file) if resume else Path(time.strftime("results/%y-%m-%d_%H:%M")))
    opener = Opener(file, mapping, device_of(config, device, say), say)
    index = ResultIndex.of(root, file)
    todo = [
        (key, cell)
        for key, cell in zip(keys(cells, opener, limit, exact), cells, strict=True)
        if not (resume and index.done(key))
    ]
    if resume:
        say(f"{len(cells) - len(todo)} of {len(cells)} cells are finished and kept in {root}")
    check([cell for _, cell in todo], opener)
    if not exact:
        _report_differences([cell for _, cell in todo], say)
    progress.begin(len(todo))
    root.mkdir(parents=True, exist_ok=True)
    with locked(root, say):
        for number, (key, cell) in enumerate(todo, 1):
            progress.cell(number, len(todo), cell.description)
            runner = _Runner(cell, root, opener, limit, exact, progress, say)
            runner.run(config.safe_mode, lambda path: index.begin(key, path, exact))  # noqa: B023
    return root


def _report_differences(cells: list[plan.CradvCell], say: plan.Say) -> None:
    """Report the difference from CrAdv that changes the numbers of the file most."""
    searched = any(
        attack and attack.name == "fgsm" and getattr(attack.params, "eps", None) is None
        for cell in cells
        for attack in cell.attacks
    )
    if searched:
        say(
            "fgsm without eps does not change pictures that are misclassified before; CrAdv moves them out "
            "of the wrong class, which can make them right. --cradv-exact (or config.cradv_exact) gives "
            "CrAdv's own numbers; docs/cradv.md lists what differs."
        )


@dataclass
class _Runner:
    """One cell: a task on a net."""

    cell: plan.CradvCell
    root: Path
    opener: Opener
    limit: int | None
    exact: bool
    progress: Progress
    say: plan.Say
    places: list[ResultFiles] = field(default_factory=list)
    """Further results of an exec_multi task, which writes pictures into several folders."""

    def run(self, safe_mode: bool, begin: Callable[[Path], None]) -> None:
        cell, begun = self.cell, time.perf_counter()
        net = self.opener.net(cell.net)  # outside of safe_mode, as in CrAdv: every result needs the net
        alone = (None, None) if cell.task.exec_multi else (cell.defenses[0], cell.attacks[0])
        place = ResultFiles(folder_of(self.root, cell, *alone))
        begin(place.path(".json"))
        try:
            result = self._result(net, place)
            if cell.variable and cell.task.plot_keys:
                plot_variable(place, cell, result, self.say)
        except Exception as error:
            for one in (place, *self.places):
                one.drop_extra()
            if not safe_mode:
                raise
            self.say(f"failed (error recorded): {cell.description}: {error}")
            place.save(str(error))
            return
        for one in self.places:
            one.keep_extra()
        place.save(record(cell, result, time.perf_counter() - begun))

    def _result(self, net: Opened, place: ResultFiles) -> dict[str, Any]:
        if self.cell.task.exec_multi:
            return (
                self._samples_multi(net, place)
                if self.cell.task.task_name == "samples"
                else self._constrained_multi(net, place)
            )
        (defense,), (attack,) = self.cell.defenses, self.cell.attacks
        if self.cell.variable is None:
            return self._simple(self._ready(net, defense, attack), place, "")
        assert attack is not None
        name, values = self.cell.variable
        results = {}
        for value in values:
            ready = self._ready(net, defense, attack.varied(**{name: value}), share=len(values))
            key = value if isinstance(value, str | int | float | None) else str(value)
            results[key] = self._simple(ready, place, f"{name}_{value}".replace("/", "_"))
        return {"variable_name": name, "results": results}

    def _simple(self, ready: Run, place: ResultFiles, below: str) -> dict[str, Any]:
        """The result of the task. Extra files are written into the sub-folder `below`, one for each value of
        a variable."""
        params = self.cell.params
        if isinstance(params, schema.Accuracy):
            return accuracy(ready, params)
        if isinstance(params, schema.Samples):
            return samples(ready, params, place.extra_below(below))
        if isinstance(params, schema.Train):
            return train(ready, params, self.opener)
        assert isinstance(params, schema.ConstrainedAccuracy)
        info = constrained(ready, params)
        curves = {"Accuracy": _curve(info, "accuracy")}
        if params.top_k:
            curves[f"Accuracy top {params.top_k}"] = _curve(info, "topk_accuracy")
        plot(place.extra_below(below) / "accuracy_plot.png", "Norm", "Accuracy", curves)
        return {"total": ready.total(params.limit_samples), "accuracy_by_norm": info}

    def _constrained_multi(self, net: Opened, place: ResultFiles) -> dict[str, Any]:
        params = self.cell.params
        assert isinstance(params, schema.ConstrainedAccuracy)
        info: dict[str, dict[str, Any]] = {}
        for defense in self.cell.defenses:
            mine = info.setdefault(_free(defense.name if defense else "no_defense", info), {})
            for attack in self.cell.attacks:
                assert attack is not None
                share = len(self.cell.defenses) * len(self.cell.attacks)
                mine[_free(attack.name, mine)] = constrained(self._ready(net, defense, attack, share), params)
        x_label = "Normalized L2 dissimilarity" if params.dissimilarity else "Norm"
        for name, mine in info.items():
            plot(
                place.extra / f"{name}_plot.png",
                x_label,
                f"Accuracy ({name})",
                {a: _curve(one, "accuracy") for a, one in mine.items()},
            )
            if params.top_k:
                curves = {a: _curve(one, "topk_accuracy") for a, one in mine.items()}
                plot(
                    place.extra / f"{name}_topk_plot.png",
                    x_label,
                    f"Accuracy top {params.top_k} ({name})",
                    curves,
                )
        return {"total": self._ready(net, None, None).total(params.limit_samples), "accuracy_by_norm": info}

    def _samples_multi(self, net: Opened, place: ResultFiles) -> dict[str, Any]:
        params = self.cell.params
        assert isinstance(params, schema.Samples)
        results: dict[str, Any] = {}
        for defense in self.cell.defenses:
            for attack in self.cell.attacks:
                folder = folder_of(self.root, self.cell, defense, attack)
                name = _free(folder.name, results)
                mine = place if name == place.folder.name else ResultFiles(folder.with_name(name))
                if mine is not place:
                    self.places.append(mine)
                result = samples(
                    self._ready(net, defense, attack, len(self.cell.defenses) * len(self.cell.attacks)),
                    params,
                    mine.extra,
                )
                results[name] = {"correct": result["correct"], "samples": result["samples"]}
        return results

    def _ready(
        self, net: Opened, defense: plan.Defense | None, attack: plan.Attack | None, share: int = 1
    ) -> Run:
        specs = [] if defense is None else [{"name": defense.name, **schema.declared(defense.params)}]
        victim = defended(net.model, specs)
        attacked = victim if self.cell.task.attack_on_defense else net.model
        if attack is not None and attack.surrogate is not None:
            attacked = self.opener.net(attack.surrogate).model
        advance = lambda part: self.progress.advance(part / share)
        run = Run(
            net,
            View(victim, net.space),
            View(attacked, net.space),
            attack,
            self.limit,
            advance,
            exact=self.exact,
        )
        return (
            replace(run, crafted=self._crafted(run, attack.params))
            if attack and isinstance(attack.params, schema.AdversarialSticker)
            else run
        )

    def _crafted(self, run: Run, params: schema.AdversarialSticker) -> dict[str, Tensor]:
        """The sticker, trained on training pictures: on the pictures it was trained on, as in CrAdv, it would
        be overestimated."""
        assert run.attack is not None
        try:
            data = self.opener.data(run.net.spec, "train")
        except UserError as error:
            self.say(
                "the sticker is trained on the pictures it is evaluated on, as in CrAdv, since there are no "
                f"others: {error}"
            )
            data = run.net.data
        wanted = min(n for n in (params.limit_samples, self.limit, len(data)) if n is not None)
        batch = (
            replace(data, keys=data.keys[: 1 if params.adv_sticker_path else wanted]).all().to(run.net.device)
        )
        return craft(run.attack, run.attacked_model, run.space, run.net.normalised(batch), SEED)


def _curve(info: dict[str, dict[str, Any]], key: str) -> tuple[list[float], list[float]]:
    """The result of constrained_accuracy as x and y."""
    return [float(value) for value in info], [one[key] for one in info.values()]


def _free(name: str, taken: dict[str, Any]) -> str:
    """The name, with a number if it is taken: i_fgsm, i_fgsm_2."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def device_of(config: schema.Config, given: str, say: plan.Say) -> torch.device:
    """The device of the command line, else of the file, else the first GPU; cpu with a notice if it is not
    available."""
    named = config.device or (config.device_ids[0] if config.device_ids else None)
    wanted = given if given != "cpu" else named or ("cuda:0" if torch.cuda.is_available() else "cpu")
    try:
        torch.zeros(1, device=wanted)
    except (RuntimeError, AssertionError) as error:
        say(f"device {wanted} is not available here, using cpu ({str(error).splitlines()[0]})")
        return torch.device("cpu")
    if config.multi_gpu and len(config.device_ids or []) > 1:
        say(
            f"device_ids names {len(config.device_ids or [])} devices; one is used ({wanted}), which "
            "changes no result."
        )
    return torch.device(wanted)


def _once(say: Callable[[str], None]) -> Callable[[str], None]:
    """The function without its repeated notices."""
    shown: set[str] = set()

    def say_once(text: str) -> None:
        if text not in shown:
            shown.add(text)
            say(text)

    return say_once
