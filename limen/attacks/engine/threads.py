"""Parallel search of clips of a recogniser: each thread searches a part of the batch.

A recurrent layer computes hundreds of small steps, which do not become faster with a second core; two batches
in two threads do. Clips of similar length share a thread, so that less padding is computed. The rows of a
problem are independent: a clip gets the same result as alone. A single clip of a batch-invariant recogniser
uses one thread, too: a second one gains nothing, and on a busy machine the two wait for each other at every
step.
"""

from bisect import bisect_left
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event

import torch
from torch import Tensor

from limen.attacks.engine.problem import Problem

Search = Callable[[Problem], Tensor]


def in_threads(problem: Problem, search: Search) -> Tensor:
    """What the search finds, computed in as many threads as torch has."""
    threads = torch.get_num_threads()
    # active dropout uses hooks of the one model, and a held-out model keeps one record: neither is safe in
    # threads
    apart = (
        problem.model.output == "transcript"
        and not problem.model.random
        and problem.watch is None
        and problem.x.device.type == "cpu"
    )
    if (
        problem.lengths is None
        or not apart
        or threads < 2
        or (len(problem) < 2 and not problem.model.batch_invariant)
    ):
        return search(problem)
    parts, x_adv, halt = shares(problem.lengths.tolist(), threads), problem.x.clone(), Event()

    @torch.no_grad()
    def searched(rows: list[int]) -> Tensor:
        return search(replace(problem.rows(torch.tensor(rows)).trimmed(), halt=halt))

    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(len(parts), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            try:
                found = list(pool.map(searched, parts))
            except BaseException:  # including Ctrl-C: the other threads end with their next call of the model
                halt.set()
                raise
    finally:
        torch.set_num_threads(threads)
    for rows, part in zip(parts, found, strict=True):
        x_adv[rows, : part.shape[1]] = part
    return x_adv


def shares(lengths: list[int], threads: int) -> list[list[int]]:
    """Row numbers of at most `threads` groups of clips, longest first, such that the largest padded group is
    as small as possible."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    sizes = sorted({n * count for n in lengths for count in range(1, len(lengths) + 1)})
    largest = sizes[bisect_left(sizes, True, key=lambda size: len(_runs(order, lengths, size)) <= threads)]
    return _runs(order, lengths, largest)


def _runs(order: list[int], lengths: list[int], largest: int) -> list[list[int]]:
    """Groups of at most `largest` samples each, padding included; a longer clip is a group of its own."""
    runs: list[list[int]] = []
    while order:
        count = max(1, largest // lengths[order[0]])
        runs.append(order[:count])
        order = order[count:]
    return runs
