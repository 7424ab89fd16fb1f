"""Agreement of two implementations of the same algorithm, picture by picture, from the same random starts.

python benchmarks/bench_agreement.py [--seeds 8] [--only apgd,auto_attack]

Compares our apgd and auto_attack with those of pyautoattack, the original ones, started at points drawn from
torch's stream for each seed: the number of robust pictures of both, and the number on which they disagree. 128
digits and both networks of bench_attacks.py. Square uses the draws of each library. Results are in
docs/peers.md.
"""

import argparse

from environment import in_peers_environment

in_peers_environment()

import peers  # noqa: E402
import torch  # noqa: E402
from contests import BUDGETS  # noqa: E402
from starts import from_their_starts  # noqa: E402
from torch import Tensor  # noqa: E402
from victim import pictures, trained  # noqa: E402

PARTS = {
    "apgd, ce": ({"name": "apgd", "loss": "ce"}, "apgd-ce"),
    "apgd, dlr": ({"name": "apgd", "loss": "dlr"}, "apgd-dlr"),
    "auto_attack": ({"name": "auto_attack"}, None),
}
"""Our attack and the part of pyautoattack; None: all of it."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument(
        "--only", default="", help="attacks whose name begins with one of these, separated by commas"
    )
    parser.add_argument("--network", default="undefended,robust")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    x, y = (t[:128] for t in pictures("mnist", "test"))
    for robust in (name == "robust" for name in arguments.network.split(",")):
        network, eps = trained("mnist", robust), BUDGETS["mnist", robust][0]
        for name, (spec, part) in PARTS.items():
            if not name.startswith(tuple(arguments.only.split(","))):
                continue
            ours = from_their_starts(peers.limen(**spec, budget={"name": "linf", "eps": eps}))
            theirs = peers.pyautoattacks(eps, peers.INF, part)
            left: dict[str, list[Tensor]] = {"limen": [], "pyautoattack": []}
            for seed in range(arguments.seeds):
                for library, run in (("limen", ours), ("pyautoattack", theirs)):
                    x_adv = run(network, x, y, seed)
                    with torch.no_grad():
                        left[library].append(network(x_adv).argmax(1) == y)
            one, other = (torch.stack(left[library]) for library in left)
            print(
                f"{'adversarially trained' if robust else 'undefended'}, {name}: of {one.numel()} robust "
                f"{int(one.sum())} (limen) and {int(other.sum())} (pyautoattack), judged differently "
                f"{int((one != other).sum())}; robust per seed {one.sum(1).tolist()} and "
                f"{other.sum(1).tolist()}",
                flush=True,
            )


if __name__ == "__main__":
    main()
