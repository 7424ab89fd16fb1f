"""The statistics of listening studies in one place: each a pure function that gives a frozen dataclass
(`dataclasses.asdict` is its JSON).

Shares and tests against chance, sensitivity, ratings, agreement, models that know who listened to what,
preferences, power, and looks before the end. Thresholds of adaptive studies are in
`limen.perception.psychometric`.
"""

from limen.listening.statistics.agreement import Agreement, fleiss_kappa, icc, krippendorff_alpha  # noqa: F401
from limen.listening.statistics.betting import Bets, bets  # noqa: F401
from limen.listening.statistics.detection import Sensitivity, abx_share, dprime, sensitivity  # noqa: F401
from limen.listening.statistics.hearers import Hearers, hearers  # noqa: F401
from limen.listening.statistics.mixed_models import Effect, MixedModel, mixed_logistic  # noqa: F401
from limen.listening.statistics.power import (  # noqa: F401
    Plan,
    expected_of_share,
    listeners_for_equivalence,
    listeners_for_shift,
    listeners_to_detect,
    power_detect,
    power_equivalence,
)
from limen.listening.statistics.proportions import (  # noqa: F401
    Adjusted,
    Equivalence,
    Proportion,
    benjamini_hochberg,
    equivalence,
    holm,
    proportion,
)
from limen.listening.statistics.ratings import Comparison, MushraRow, compare_ratings, mushra, mushra_rejected  # noqa: F401
from limen.listening.statistics.samples import SampledMean, SampledShare, sampled_mean, sampled_share  # noqa: F401
from limen.listening.statistics.scaling import Strength, bradley_terry  # noqa: F401
from limen.listening.statistics.sequential import (  # noqa: F401
    AlwaysValid,
    Boundaries,
    CountBoundaries,
    always_valid,
    boundaries,
    count_boundaries,
)
