"""PYTHONSTARTUP of the kernels that `workbench lab` starts; it leaves no name behind."""

try:
    from workbench.order import explain_order
except ModuleNotFoundError:  # another environment's Python, in a terminal of the same JupyterLab
    pass
else:
    explain_order()
    del explain_order
