"""The former name of `workbench.views`."""

from workbench.views import *  # noqa: F403
