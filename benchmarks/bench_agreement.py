"""Do two libraries that implement one algorithm fool the same pictures when they start at the same random points?

python benchmarks/bench_agreement.py [--seeds 8]

Our APGD beside pyautoattack's, which is the original, with the start that torch's stream gives for each seed: robust pictures of both, and
on how many pictures they disagree. 128 digits and both networks of bench_attacks.py. What it gives stands in docs/peers.md.
"""

import argparse

from environment import among_peers

among_peers()

import peers  # noqa: E402
import torch  # noqa: E402
from contests import BUDGETS  # noqa: E402
from torch import Tensor  # noqa: E402
from victim import pictures, trained  # noqa: E402

from limen.attacks._problem import Problem  # noqa: E402


def shared_start(problem: Problem) -> Tensor:
    """Where pyautoattack starts under linf, drawn from torch's own stream."""
    drawn = 2 * torch.rand(problem.x.shape) - 1
    return problem.clip(problem.x + problem.ball.fill(drawn))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=8)
    seeds = range(parser.parse_args().seeds)
    torch.set_num_threads(1)
    Problem.start = shared_start  # type: ignore[method-assign]
    x, y = (t[:128] for t in pictures("mnist", "test"))
    for robust in (False, True):
        network, eps = trained("mnist", robust), BUDGETS["mnist", robust][0]
        for loss in ("ce", "dlr"):
            ours = peers.limen(name="apgd", loss=loss, steps=100, budget={"name": "linf", "eps": eps})
            theirs = peers.pyautoattacks(eps, peers.INF, f"apgd-{loss}")
            left: dict[str, list[Tensor]] = {"limen": [], "pyautoattack": []}
            for seed in seeds:
                for library, run in (("limen", ours), ("pyautoattack", theirs)):
                    torch.manual_seed(seed)
                    x_adv = run(network, x, y, seed)
                    with torch.no_grad():
                        left[library].append(network(x_adv).argmax(1) == y)
            one, other = (torch.stack(left[library]) for library in left)
            print(f"{'adversarially trained' if robust else 'undefended'}, {loss}: of {one.numel()} robust {int(one.sum())} (limen) and "
                  f"{int(other.sum())} (pyautoattack), otherwise judged {int((one != other).sum())}; "
                  f"robust per seed {one.sum(1).tolist()}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
