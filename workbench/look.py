"""The former name of `workbench.views`."""

import sys

from workbench import views

sys.modules[__name__] = views
