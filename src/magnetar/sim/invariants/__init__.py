"""The invariants that are checked from outside, after every step and in peace."""

from __future__ import annotations

from magnetar.sim.invariants.convergence import Convergence

INVARIANTS = (Convergence,)
