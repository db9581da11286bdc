"""Training: one loop around a method; each step is a function of the seed and the step's number.

A training state is the weights, AdamW's moments and that number, in one file. On a CPU a killed run
resumes bit for bit, with the same versions, processor and settings. On a GPU it resumes with the
same batches and dropout masks, but sums there may have no fixed order, so weights may differ by
rounding, which grows with each step: docs/gpu.md.
"""

from workbench.training._loop import fit as fit
