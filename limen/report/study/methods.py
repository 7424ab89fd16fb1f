"""Descriptions of methods that several sections of the results page share."""

OVER_LISTENERS_AND_ITEMS = {
    "Over listeners and items": "Answers of one listener resemble each other, and so do answers to one item. "
    "The variances of both are estimated by the method of moments (if all listeners hear all items: the "
    "quasi-F of Clark 1973), degrees of freedom by Satterthwaite. A share is then tested by a score "
    "statistic with Student’s t, the same for interval and tests: the 95 % interval contains what the "
    "two-sided test does not reject, the 90 % interval what the one-sided tests do not reject. In simulated "
    "studies of many designs with five items or more, these tests at 5 % reject a true hypothesis in 3 to 6 "
    "% of studies."
}
INDEPENDENT = {
    "If answers were independent": "Clopper-Pearson intervals, exact binomial tests, and for ratings the "
    "exact test of two distributions (Freeman-Halton): the results if the answers of one listener, "
    "and to one item, were no more alike than others. No verdict is based on them."
}
AGREEMENT = {
    "Agreement": "Krippendorff’s alpha between listeners who judged the same item and condition: 1 is "
    "perfect, 0 is chance. Intervals are from resampling items, for these listeners."
}
SEVERAL_HYPOTHESES = {"Several hypotheses": "Holm’s correction over all hypotheses of the study file."}
