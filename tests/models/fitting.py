"""Training as the task `train` does it: with the objective that the options name, or the model's default."""

from limen.models.training import loop
from limen.objectives.base.objective import objective_for


def train(model, train_set, valid_set, options, folder, **more):
    objective = objective_for(model, options.objective)
    return loop.train(model, train_set, valid_set, options, folder, objective=objective, **more)
