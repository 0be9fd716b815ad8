"""The version of this package: the only place that states it."""

__version__ = VERSION = "0.1.0"
