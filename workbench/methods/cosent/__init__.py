"""CoSENT (Huang et al. 2024), the supervised losses that it is compared with, and its interaction model."""

from workbench.methods.cosent._method import CoSENT, PairClassifier

__all__ = ["CoSENT", "PairClassifier"]
