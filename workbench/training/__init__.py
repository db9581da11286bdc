"""Training: one loop around a method; each step is a function of the seed and the step's number.

A training state is the weights, AdamW's moments and that number, in one file; a killed run resumes bit for bit.
"""

from workbench.training._loop import fit as fit
