"""PYTHONSTARTUP of the kernels that `workbench lab` starts; it leaves no name behind."""

from workbench.order import explain_order

explain_order()
del explain_order
