"""The version of this package: the only place that states it."""

VERSION = "0.1.0"
