"""CoSENT (Huang et al. 2024), the supervised losses that it is compared with, and its interaction model."""

from workbench.methods.cosent.method import CoSENT

__all__ = ["CoSENT"]
