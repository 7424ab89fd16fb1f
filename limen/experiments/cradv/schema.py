"""CrAdv's task files as data: every field, component and parameter with its default. Unknown keys are
ignored, as in CrAdv, and reported.

Facts from https://github.com/diegoirigaray/CrAdv at commit 8424744 (src/utils/schemas.py, src/exec/parser.py,
src/custom).
"""

from pathlib import PurePosixPath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

MOST_POINTS = 10_000
"""Most values that the parameters of one attack or task may span."""


class CradvPart(BaseModel):
    """A part of a CrAdv file. JSON types are not converted: 1 is no boolean and "1" no number."""

    model_config = ConfigDict(
        extra="allow",
        frozen=True,
        strict=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
        protected_namespaces=(),
    )


def declared(params: CradvPart) -> dict[str, Any]:
    """The parameters without keys that CrAdv ignores."""
    return {name: getattr(params, name) for name in type(params).model_fields}


def check_grid(low: float, high: float, step: float, names: str) -> None:
    """A ValueError if the range has no value or more than MOST_POINTS."""
    if high < low:
        raise ValueError(f"{names}: the highest value {high:g} is below the lowest {low:g}")
    if (high - low) / step >= MOST_POINTS:
        raise ValueError(
            f"{names}: a grid from {low:g} to {high:g} in steps of {step:g} has "
            f"{(high - low) / step + 1:,.0f} values; at most {MOST_POINTS:,} are tried. Take a larger step"
        )


class File(CradvPart):
    config: dict[str, Any] = {}
    tasks: list[dict[str, Any]] = Field(min_length=1)
    """a list of tasks, each with task_data and nets."""


class Config(CradvPart):
    device: str | None = None
    multi_gpu: bool = True
    device_ids: list[str] | None = None
    batch_size_factor: float = Field(default=1, gt=0)
    results_path: str | None = None
    safe_mode: bool = False
    cradv_exact: bool = False
    """Not in CrAdv: search and count as CrAdv itself does, its mistakes included."""


class Task(CradvPart):
    task_data: dict[str, Any]
    """what to do: {"task_name": "accuracy", "task_params": {...}}."""
    nets: list[dict[str, Any]] = Field(min_length=1)
    """models with their data: [{"model_name": ..., "datasource_name": ..., "net_id": ...}]."""
    attacks: list[dict[str, Any]] = []
    defenses: list[dict[str, Any]] = []
    attack_variables: list[dict[str, Any]] = []


class TaskData(CradvPart):
    task_name: str
    """accuracy, constrained_accuracy, samples or train."""
    task_params: dict[str, Any] = {}
    exec_multi: bool = False
    attack_on_defense: bool = True
    plot_results: bool = False
    plot_keys: list[str] = []
    plot_together: bool = True
    skip_no_defense: bool = False
    skip_no_attack: bool = False
    skip_no_attack_variables: bool = False


class Net(CradvPart):
    model_name: str
    """name of the model, for example resnet14_mnist."""
    datasource_name: str
    """name of the data set, for example mnist."""
    net_id: str
    """name of the weights: data/weights/<net_id>.pth."""
    model_params: dict[str, Any] = {}
    datasource_params: dict[str, Any] = {}

    @field_validator("net_id")
    @classmethod
    def _below_the_results(cls, value: str) -> str:
        parts = PurePosixPath(value).parts
        if not parts or "/" in parts or ".." in parts or "\0" in value:
            raise ValueError(
                'it names the folder of the results and the file of the weights, such as "mnist_resnet14"; '
                f"got {value!r}"
            )
        return value


class Attack(CradvPart):
    attack_name: str
    """name of the attack, for example fgsm."""
    attack_params: dict[str, Any] = {}
    except_variables: list[str] = []
    on_task_model: bool = True
    specific_models: list[dict[str, Any]] = []


class Defense(CradvPart):
    defense_name: str
    """name of the defence, for example jpeg."""
    defense_params: dict[str, Any] = {}


class AttackVariable(CradvPart):
    variable_name: str
    """name of the attack's parameter to vary."""
    variable_values: list[Any] = Field(min_length=1)
    """list of values to try."""


class Datasource(CradvPart):
    path: str | None = None
    batch_size: int = Field(default=8, ge=1)
    shuffle: bool | None = None
    num_workers: int = 0


class Limited(CradvPart):
    """Attacks with a bound on the Euclidean norm, in [0, 1] units."""

    max_2_norm: float | None = Field(default=None, ge=0)
    dissimilarity: float | None = Field(default=None, ge=0)


class Fgsm(CradvPart):
    eps: float | None = Field(default=None, ge=0)
    try_eps_min: float = Field(default=0.001, ge=0)
    try_eps_max: float = Field(default=1, gt=0)
    try_eps_step: float = Field(default=0.001, gt=0)

    @model_validator(mode="after")
    def _check_grid(self) -> "Fgsm":
        if self.eps is None:
            check_grid(
                min(self.try_eps_min, self.try_eps_max),
                self.try_eps_max,
                self.try_eps_step,
                "try_eps_min, _max and _step",
            )
        return self


class IFgsm(Limited):
    eps: float = Field(default=0.1, ge=0)
    alpha: float | None = Field(default=None, ge=0)
    iterations: int = Field(default=10, ge=1)
    least_likely: bool = False
    min_alpha: float | None = Field(default=None, ge=0)


class MiFgsm(CradvPart):
    eps: float = Field(default=0.1, ge=0)
    iterations: int = Field(default=10, ge=1)
    decay_factor: float = Field(default=1.0, ge=0)
    max_2_norm: float | None = Field(default=None, ge=0)


class DeepFool(Limited):
    eps: float = Field(default=0.02, ge=0)
    k_classes: int = Field(default=10, ge=2)
    max_iter: int = Field(default=50, ge=1)


class CarliniWagner(CradvPart):
    bin_search_steps: int = Field(default=10, ge=1)
    max_iterations: int = Field(default=1000, ge=1)
    abort_early: bool = True
    c_init: float = Field(default=1e-2, gt=0)
    c_const: float | None = Field(default=None, ge=0)
    learning_rate: float = Field(default=1e-2, gt=0)
    confidence: float = Field(default=0, ge=0)
    target_class: Literal["random", "least_likely"] | None = None
    random_classes: str | None = Field(default=None, pattern=r"^\s*\d+(\s+\d+)*\s*$")


class RandomNoise(Limited):
    eps: float = Field(default=0.2, ge=0)


class AdversarialSticker(CradvPart):
    base_img_path: str | None = None
    adv_sticker_path: str | None = None
    limit_samples: int | None = Field(default=1000, ge=1)
    transforms_per_img: int = Field(default=6, ge=1)
    iter_per_img: int = Field(default=10, ge=1)
    adv_target: int | None = Field(default=None, ge=0)
    alpha: float = Field(default=0.015, gt=0)
    decay_factor: float = Field(default=1, ge=0)
    gradient_noise: float = Field(default=0.15, ge=0)
    random_noise: float = Field(default=0.15, ge=0)
    save_path: str = "adv_sticker.png"


class Jpeg(CradvPart):
    quality: int = Field(default=75, ge=1, le=100)


class CropRescale(CradvPart):
    crop_size: int | None = Field(default=None, ge=1)
    crop_size_factor: float = Field(default=0.75, gt=0, le=1)
    num_samples: int = Field(default=10, ge=1)


class Accuracy(CradvPart):
    limit_samples: int | None = Field(default=None, ge=1)
    top_k: int | None = Field(default=None, ge=1)
    round: bool = False


class ConstrainedAccuracy(CradvPart):
    limit_samples: int | None = Field(default=None, ge=1)
    top_k: int | None = Field(default=None, ge=1)
    dissimilarity: bool = True
    contraint_step: int | float = Field(default=0.25, gt=0)
    constraint_min: int | float = Field(default=0, ge=0)
    constraint_max: int | float = Field(default=6, ge=0)

    @model_validator(mode="after")
    def _check_grid(self) -> "ConstrainedAccuracy":
        check_grid(
            self.constraint_min,
            self.constraint_max,
            self.contraint_step,
            "constraint_min, constraint_max and contraint_step",
        )
        return self


class Samples(CradvPart):
    limit_samples: int = 4
    save_clean: bool = True
    save_defended: bool = True
    save_adversary: bool = True
    save_perturbation: bool = True


class Train(CradvPart):
    epochs: int = Field(default=1, ge=0)
    lr: float = Field(default=0.001, gt=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: float = Field(default=1e-4, ge=0)


DATASOURCES: dict[str, type[CradvPart]] = dict.fromkeys(
    ("mnist", "fmnist", "cifar10", "imagenet", "imagenet_inc3"), Datasource
)
MODELS = ("resnet14_mnist", "resnet14_cifar", "resnet50", "vgg19", "densenet121", "inception_v3")
ATTACKS: dict[str, type[CradvPart]] = {
    "fgsm": Fgsm,
    "i_fgsm": IFgsm,
    "mi_fgsm": MiFgsm,
    "deepfool": DeepFool,
    "carlini_wagner": CarliniWagner,
    "random_noise": RandomNoise,
    "adversarial_sticker": AdversarialSticker,
}
DEFENSES: dict[str, type[CradvPart]] = {"jpeg": Jpeg, "crop_rescale": CropRescale}
TASKS: dict[str, type[CradvPart]] = {
    "accuracy": Accuracy,
    "constrained_accuracy": ConstrainedAccuracy,
    "samples": Samples,
    "train": Train,
}
