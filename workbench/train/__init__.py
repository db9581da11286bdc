"""Training: one loop around a method. What a step computes is a function of the seed and the step's number.

So a training state is the weights, AdamW's moments and that number, in one file, and a killed run goes on bit for bit.
"""

from workbench.train._loop import fit as fit
from workbench.train._plan import Plan as Plan
from workbench.train._state import State as State
