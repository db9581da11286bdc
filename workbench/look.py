"""The former name of `workbench.views`."""

import sys

import workbench.views

sys.modules[__name__] = workbench.views
