"""Limen tells you how easily a model can be fooled, and whether anyone would notice."""

__version__ = "0.1.0"
