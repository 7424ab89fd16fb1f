"""Memory, cores and gradients of a cell, and the jobs that fit into memory."""

import pytest

from limen.experiments.engines.processes import Processes, processes
from limen.experiments.file import Experiment
from limen.experiments.needs import (
    PROCESS_MB,
    Needs,
    available_memory_mb,
    jobs_that_fit,
    memory_text,
    needs_of,
)
from limen.experiments.plan import plan

MLP = {"name": "mlp", "weights": "nowhere.safetensors"}
PGD = {"name": "pgd", "steps": 40, "budget": {"name": "linf", "eps": 0.1}}


def needs(model=MLP, data=None, attack=None, batch_size=64, **entry) -> Needs:
    net = {"model": model, "data": {"name": "digits", **(data or {})}}
    tasks = [{"nets": [net], "attacks": [attack], **entry}]
    (cell,) = plan(Experiment.model_validate({"name": "t", "audit": False, "tasks": tasks}))
    return needs_of(cell.spec, batch_size)


def test_a_small_net_needs_one_core_and_memory_for_its_batch():
    assert needs() == Needs(cores=1, memory_mb=PROCESS_MB + 50 + 10 * 64, gradients=1)
    assert needs(batch_size=8).memory_mb == PROCESS_MB + 50 + 10 * 8


def test_no_more_samples_than_the_limit_of_the_data_are_held_in_memory():
    assert needs(data={"limit": 5}).memory_mb == PROCESS_MB + 50 + 10 * 5


def test_networks_for_imagenet_declare_their_own_memory():
    # vgg19 was measured at 1468 MB for batches of 4
    vgg = needs(model={"name": "vgg19", "weights": "random"}, batch_size=4)
    assert vgg == Needs(cores=4, memory_mb=PROCESS_MB + 580 + 175 * 4, gradients=1)
    assert vgg.memory_mb == pytest.approx(1468, rel=0.1)


def test_whisper_needs_more_for_each_size_and_without_its_fast_search():
    memory = {
        size: needs(model={"name": "whisper", "size": size}, batch_size=1).memory_mb
        for size in ("tiny.en", "base", "small", "medium", "large-v3")
    }
    assert memory["tiny.en"] == PROCESS_MB + 8 * 39 + 260 + 20
    assert list(memory.values()) == sorted(memory.values())
    full = needs(model={"name": "whisper", "fast": False}, batch_size=1).memory_mb
    assert full == memory["tiny.en"] + 510


def test_a_checkpoint_needs_memory_by_the_size_of_its_file(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(bytes(10 * 2**20))
    model = {"name": "huggingface_ctc", "path": str(tmp_path)}
    assert needs(model=model, batch_size=8).memory_mb == PROCESS_MB + 10 * (4 + 2)


def test_surrogates_are_opened_too():
    surrogate = {"models": [MLP, {"name": "resnet50", "weights": "random"}], "stop": {"name": "cnn"}}
    one = needs(attack={**PGD, "surrogate": surrogate}, batch_size=2)
    assert one.memory_mb == PROCESS_MB + 3 * (50 + 20) + (150 + 200)
    assert one.cores == 4


def test_gradients_are_those_of_every_step_and_sample_and_one_evaluation():
    assert needs(attack=PGD).gradients == 41
    assert needs(attack=PGD, data={"limit": 20}).gradients == 20 * 41
    assert needs(attack={**PGD, "restarts": 2}).gradients == 81
    assert needs(attack={**PGD, "draws": 3}).gradients == 3 * 41


@pytest.mark.parametrize(
    ("jobs", "cells", "available", "fitting"),
    [
        (4, [1000] * 9, 4000, 4),
        (4, [1000] * 9, 3999, 3),
        (2, [6000, 500, 500, 3000], 9000, 2),
        (2, [6000, 500, 500, 3000], 8999, 1),
        (3, [8000], 100, 1),  # one job runs in any case
        (3, [8000, 8000], None, 3),
        (3, [], 100, 3),
    ],
)
def test_as_many_jobs_run_as_the_largest_cells_leave_room_for(jobs, cells, available, fitting):
    assert jobs_that_fit(jobs, cells, available) == fitting


class Watcher:
    def __init__(self):
        self.notices = []

    def cell(self, number, count, words): ...
    def advance(self, units): ...
    def say(self, text):
        self.notices.append(text)


def double(item, state, watcher):
    return item * state


def state():
    return 2


@pytest.mark.parametrize(
    ("memory_mb", "notices"),
    [(6000, ["2 jobs need about 9.0 GB of memory, 6.0 GB are free: using 1"]), (9000, [])],
)
def test_the_engine_processes_reduces_its_jobs_with_a_notice(memory_mb, notices):
    watcher = Watcher()
    options = Processes(jobs=2, cells_mb=[4500, 4500, 100], memory_mb=memory_mb)
    with processes(state, watcher, options) as pool:
        assert pool.executor._max_workers == (1 if notices else 2)
        assert sorted(pool.map(double, [1, 2, 3])) == [2, 4, 6]
    assert watcher.notices == notices


def test_free_memory_is_what_linux_reports_or_what_the_container_leaves(tmp_path):
    assert available_memory_mb(tmp_path) is None
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable:   4096000 kB\n")
    assert available_memory_mb(tmp_path) == 4000
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text(f"{2**30}\n")
    assert available_memory_mb(tmp_path) == 4000
    (group / "memory.max").write_text(f"{3 * 2**30}\n")
    assert available_memory_mb(tmp_path) == 2048


def test_memory_is_written_in_gigabytes():
    assert memory_text(640) == "0.6 GB"
    assert memory_text(12_400) == "12 GB"
