"""A backend for Django's tasks whose jobs a streamfleet fleet runs.

Name it in the settings, and start ``manage.py streamfleet_worker``: tasks stay as they are. The README beside this package has a
quick start.
"""

from ._version import VERSION
from .backend import StreamfleetBackend

__version__ = VERSION
__all__ = ["StreamfleetBackend"]
