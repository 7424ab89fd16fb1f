"""Training in several processes: each computes on its share of a batch, gradients add up, and the first
process alone writes files.

The processes are those of torch.distributed: start them with torchrun, call
`torch.distributed.init_process_group("gloo")` in each, then train as in one process. Without that there is
one process and nothing to set up. With layers that use statistics of the batch (batch normalisation), each
process uses those of its own share; the first process's running statistics are kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor, distributed, nn

T = TypeVar("T")


@dataclass(frozen=True)
class Processes:
    """The processes of this training, seen from one of them."""

    rank: int = 0
    count: int = 1

    @classmethod
    def current(cls) -> "Processes":
        if distributed.is_available() and distributed.is_initialized():
            return cls(distributed.get_rank(), distributed.get_world_size())
        return cls()

    @property
    def several(self) -> bool:
        return self.count > 1

    @property
    def first(self) -> bool:
        """True in the process that writes."""
        return self.rank == 0

    @property
    def words(self) -> tuple[int, ...]:
        """Words that name this process's random streams; none if it is the only one."""
        return (self.rank,) if self.several else ()

    def share_of(self, items: Sequence[T]) -> list[T]:
        return list(items[self.rank :: self.count])

    def copy_first(self, tensors: Sequence[Tensor]) -> None:
        """Every process gets the tensors of the first."""
        if self.several:
            for tensor in tensors:
                distributed.broadcast(tensor.detach(), 0)

    def same(self, value: T) -> T:
        """The value of the first process."""
        if not self.several:
            return value
        box = [value]
        distributed.broadcast_object_list(box, 0)
        return box[0]

    def total(self, value: float) -> float:
        """The sum over all processes."""
        if not self.several:
            return value
        summed = torch.tensor(value, dtype=torch.float64)
        distributed.all_reduce(summed)
        return float(summed)

    def add_gradients(self, parameters: Sequence[nn.Parameter]) -> None:
        """Every parameter's gradient becomes the sum over all processes; one without a gradient anywhere
        keeps none, so that the optimiser leaves it alone."""
        if not self.several:
            return
        used = torch.tensor([float(p.grad is not None) for p in parameters])
        distributed.all_reduce(used)
        for parameter, count in zip(parameters, used.tolist(), strict=True):
            if count:
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                distributed.all_reduce(parameter.grad)

    def wait(self) -> None:
        """Until all processes have got here."""
        if self.several:
            distributed.barrier()
