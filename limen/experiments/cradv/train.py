"""CrAdv's task train: stochastic gradient descent, on attacked pictures if there is an attack, into
data/weights/<net_id>.pth."""

import os
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from limen.core import seeds
from limen.core.types import collate
from limen.data.base.dataset import Dataset
from limen.experiments.cradv import schema
from limen.experiments.cradv.nets import Opener, mapped
from limen.experiments.cradv.tasks import SEED, Run
from limen.models.base.model import inner


def train(run: Run, params: schema.Train, opener: Opener) -> dict[str, object]:
    """Trains the net in place and saves it; CrAdv's result is empty."""
    data = opener.data(run.net.spec, "train")
    if run.limit is not None:
        data.keys = data.keys[: run.limit]
    optimizer = torch.optim.SGD(
        run.net.model.parameters(), lr=params.lr, momentum=params.momentum, weight_decay=params.weight_decay
    )
    for epoch in range(params.epochs):
        _epoch(run, data, optimizer, epoch, params.epochs)
    run.net.model.eval()
    _save(run, Path(mapped(f"data/weights/{run.net.spec.id}.pth", opener.mapping)))
    opener.kept.clear()  # the next task takes the new weights
    return {}


def _epoch(run: Run, data: Dataset, optimizer: torch.optim.Optimizer, epoch: int, epochs: int) -> None:
    order = list(range(len(data)))
    if run.net.spec.source.shuffle is not False:
        order = torch.randperm(len(data), generator=seeds.generator(SEED, "train", epoch)).tolist()
    size = run.net.spec.batch_size
    for start in range(0, len(order), size):
        raw = collate(data.kind, [data[i] for i in order[start : start + size]]).to(run.net.device)
        batch = run.net.normalised(raw)
        x = run.attacked(batch)  # attacks judge the net in evaluation mode, whatever mode it learns in
        run.victim.train()
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(seeds.number(SEED, "dropout", epoch, start) % 2**32)
            logits = run.victim(x, None, seeds.generators(SEED, batch.ids, "train", epoch))
            assert isinstance(logits, Tensor)
            assert isinstance(batch.y, Tensor)
            optimizer.zero_grad()
            F.cross_entropy(logits, batch.y).backward()
            optimizer.step()
        run.advance(len(batch) / len(order) / epochs)


def _save(run: Run, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    torch.save({k: v.cpu() for k, v in inner(run.net.model).state_dict().items()}, beside)
    os.replace(beside, path)
