"""What a search needs of its budget, and the error if the budget does not give it."""

from limen.attacks.engine.problem import Problem
from limen.budgets.families.budget import NormName
from limen.core.errors import UserError

NAMES: dict[NormName, str] = {"linf": "L-inf", "l2": "L2", "l1": "L1", "l0": "L0"}


def need_norm(problem: Problem, who: str, *norms: NormName, per_value: bool = False) -> None:
    """For searches that know the shape of the budget: a ball of one of these norms, or (per_value) one
    interval for each value. Without a budget the error of `Problem.ball` is raised."""
    budget = problem.ball
    if budget.norm_name in norms or (per_value and budget.coordinatewise):
        return
    wanted = [NAMES[norm] for norm in norms]
    listed = " or ".join([", ".join(wanted[:-1]), wanted[-1]]) if len(wanted) > 1 else wanted[0]
    also = ", or one with limits per value" if per_value else ""
    raise UserError(f"The attack {who} needs an {listed} budget{also}; got {budget.title}. Use pgd.")
