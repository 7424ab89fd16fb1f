r"""Carlini and Wagner's L2 attack. Carlini & Wagner 2017, https://arxiv.org/abs/1608.04644:

    minimise  || delta ||_2^2 + c * f(x + delta),    f = max( max_{i != t} Z_i - Z_t, -kappa )    (for a target t)

with Adam and a binary search over c. Of a recogniser, which has no margin, f is minus the goal's loss until the goal is reached.
"""
