"""Models that an attack must cope with, small enough to be known (linear, counting, blind, ill, of clips, of
speech), and their samples."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from limen.core.types import Batch, Outputs, predictions
from limen.models.base.model import Classifier, Model

NORMS = {"linf": 1.0, "l2": 2.0, "l1": torch.inf}
"""Budget -> the dual norm, which gives the exact radius of a linear model."""


class Counted(Classifier):
    """Counts the samples it is asked about."""

    asked = 0

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Tensor:
        self.asked += len(x)
        return super().forward(x, lengths, generators)


class Hasty(Model):
    """A model whose stand-in for searches is too optimistic: it takes `less` from the first class before the
    model does."""

    def __init__(self, inner: Model, less: float):
        super().__init__()
        self.inner, self.less, self.hastens = inner, less, False
        self.copy_facts(inner)

    @property
    def for_attack(self) -> Model:
        seen = copy.copy(self)
        seen.hastens = True
        return seen

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Outputs:
        outputs = self.inner(x, lengths, generators)
        if not self.hastens:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs - F.one_hot(torch.zeros(len(x), dtype=torch.long), outputs.shape[1]) * self.less
        assert isinstance(outputs, Heard)  # blanks are likelier: letters get lost
        return Heard(
            (outputs.log_probs + self.less * torch.tensor([1.0, 0, 0])).log_softmax(2), outputs.frames
        )


class ClipNet(Model):
    """Clips of any length to three classes; a clip gives the same alone as beside a longer one."""

    kind, output, classes, rate_hz = "clip", "class", ["a", "b", "c"], 16_000

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.out = nn.Conv1d(1, 8, 5), nn.Linear(8, 3)

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Tensor:
        h = self.conv(F.pad(x[:, None], (4, 0))).tanh()
        mask = torch.ones_like(x) if lengths is None else (torch.arange(x.shape[1]) < lengths[:, None]).to(x)
        return self.out((h * mask[:, None]).sum(2))


@dataclass
class Heard:
    exact = True

    log_probs: Tensor
    """(B, frames, 3): blank, a, b."""
    frames: Tensor

    def nll(self, texts: Sequence[str], first_weight: float = 0.0) -> Tensor:
        targets = torch.tensor(["-ab".index(c) for t in texts for c in t])
        return F.ctc_loss(
            self.log_probs.transpose(0, 1),
            targets,
            self.frames,
            torch.tensor([len(t) for t in texts]),
            reduction="none",
        )

    def texts(self) -> list[str]:
        best = [
            row[:n].unique_consecutive()
            for row, n in zip(self.log_probs.argmax(2), self.frames.tolist(), strict=True)
        ]
        return ["".join("-ab"[k] for k in row.tolist() if k) for row in best]

    def would_transcribe(self, texts: Sequence[str], first: Sequence[int] | None = None) -> Tensor:
        cut = first or [None] * len(texts)
        return torch.tensor([a[:n] == b[:n] for a, b, n in zip(self.texts(), texts, cut, strict=True)])

    def rows(self, index: Tensor) -> "Heard":
        return Heard(self.log_probs[index], self.frames[index])


class Recogniser(Model):
    """Frames of four samples, a linear layer, CTC."""

    kind, output, rate_hz = "clip", "transcript", 16_000

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(4, 3)
        nn.init.normal_(self.out.weight, std=3.0)

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Heard:
        frames = F.pad(x, (0, -x.shape[1] % 4)).unfold(1, 4, 4)
        n = torch.full((len(x),), x.shape[1]) if lengths is None else lengths
        return Heard(self.out(frames).log_softmax(2), (n + 3) // 4)


class Blind(Model):
    """A linear model behind something through which no gradient comes, or one that always answers the
    same."""

    kind, output, classes = "picture", "class", list("abcd")

    def __init__(self, way: str):
        super().__init__()
        self.way = way
        self.weight = torch.randn(3 * 8 * 8, 4, generator=torch.Generator().manual_seed(0))

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Tensor:
        if self.way == "constant":
            return torch.tensor([1.0, 0.0, 0.0, 0.0]).repeat(len(x), 1)
        return ((x * 4).round() if self.way == "rounds" else (x > 0.5).to(x)).flatten(1) @ self.weight


class Ill(Model):
    """A small network that has gradients (or answers) which are no numbers for bright pictures."""

    kind, output, classes = "picture", "class", list("abcd")

    def __init__(self, ill: str):
        super().__init__()
        self.ill, self.network = ill, pictures(torch.float64)[0].network

    def forward(
        self, x: Tensor, lengths: Tensor | None = None, generators: Sequence[torch.Generator] | None = None
    ) -> Tensor:
        value = x.flatten(1).mean(1)
        bright = (value.detach() > 0.75).to(x)
        root = (value - value.detach() + 1 - bright).sqrt()  # of 0: its slope is infinite
        logits = self.network(x) + (root * bright)[:, None]
        return logits if self.ill == "gradient" else logits.where(bright[:, None] == 0, torch.nan)


def two_classes(norm: str) -> tuple[Counted, Batch, float]:
    """A linear model, samples of one class well inside the range, and the radius at which each of them
    changes sides."""
    draw = torch.Generator().manual_seed(0)
    signs = torch.randint(0, 2, (16,), generator=draw) * 2.0 - 1
    w = signs * (0.5 + torch.rand(16, generator=draw))
    margin = 0.1
    x = 0.5 + 0.05 * torch.randn(5, 16, generator=draw)
    layer = nn.Linear(16, 2)
    layer.weight.data = torch.stack([w, torch.zeros(16)])
    layer.bias.data = torch.tensor([-0.5 * float(w.sum()), 0.0])
    x += ((margin - (x @ w + layer.bias[0].item())) / w.dot(w))[:, None] * w
    model = Counted(nn.Sequential(nn.Flatten(), layer), "picture", ["a", "b"])
    return (
        model,
        Batch("picture", [f"s{i}" for i in range(5)], x.view(5, 1, 4, 4), torch.zeros(5, dtype=torch.long)),
        margin / float(w.norm(p=NORMS[norm])),
    )


def rugged() -> tuple[Counted, Batch]:
    """A network in double precision whose classes lie in small patches, so that a search often crosses one
    and leaves it again."""
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.Tanh(), nn.Flatten(), nn.Linear(16 * 16, 32), nn.Tanh(), nn.Linear(32, 5)
    ).double()
    for p in network.parameters():
        p.data *= 3
    x = torch.rand(40, 1, 6, 6, dtype=torch.float64)
    with torch.no_grad():
        return Counted(network, "picture", list("abcde")), Batch(
            "picture", [f"p{i}" for i in range(40)], x, network(x).argmax(1)
        )


def pictures(dtype: torch.dtype = torch.float32, classes: int = 4) -> tuple[Counted, Batch]:
    """A small network and pictures that it gets right; of the first one all values stand at the ends of the
    range."""
    torch.manual_seed(1)
    layers = (
        nn.Conv2d(3, 6, 3),
        nn.Tanh(),
        nn.BatchNorm2d(6),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(6 * 36, classes),
    )
    model = Counted(nn.Sequential(*layers).to(dtype).eval(), "picture", list("abcdef")[:classes])
    x = torch.rand(5, 3, 8, 8, dtype=dtype)
    x[0].round_()
    with torch.no_grad():
        return model, Batch("picture", [f"p{i}" for i in range(5)], x, model(x).argmax(1))


def clips(model: Model, dtype: torch.dtype = torch.float64) -> Batch:
    draw = torch.Generator().manual_seed(2)
    lengths = torch.tensor([40, 64, 52, 64, 28])
    x = (torch.rand(5, 64, generator=draw, dtype=dtype) - 0.5) * (torch.arange(64) < lengths[:, None])
    with torch.no_grad():
        return Batch("clip", [f"c{i}" for i in range(5)], x, predictions(model(x, lengths)), lengths)
