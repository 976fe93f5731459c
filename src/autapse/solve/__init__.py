"""Solvers for z = F(z) and for linear systems. They work on systems and operators, and know no networks."""

from autapse.solve.base import Solver
from autapse.solve.block_tridiagonal import BlockTridiagonal
from autapse.solve.chain import Chain, Stage
from autapse.solve.defaults import general, recommended
from autapse.solve.fixed_point import Anderson, FixedPoint
from autapse.solve.inexact_newton import InexactNewton
from autapse.solve.inn_paper import Paper, Statistics
from autapse.solve.krylov import GMRES, BiCGStab
from autapse.solve.linear import LinearReport, LinearSolver
from autapse.solve.newton import Newton
from autapse.solve.operator import Matrices, Operator, Resolvent
from autapse.solve.report import NotConvergedWarning, Reason, SolveReport
from autapse.solve.spectral_radius import spectral_radius
from autapse.solve.sweeps import Sweeps
from autapse.solve.system import Blocks, Derivative, Equations, Groups, Linear, Point, Relaxing, System
from autapse.solve.tolerance import Tolerance
from autapse.solve.tridiagonal import Tridiagonal

__all__ = [
    "GMRES",
    "Anderson",
    "BiCGStab",
    "BlockTridiagonal",
    "Blocks",
    "Chain",
    "Derivative",
    "Equations",
    "FixedPoint",
    "Groups",
    "InexactNewton",
    "Linear",
    "LinearReport",
    "LinearSolver",
    "Matrices",
    "Newton",
    "NotConvergedWarning",
    "Operator",
    "Paper",
    "Point",
    "Reason",
    "Relaxing",
    "Resolvent",
    "SolveReport",
    "Solver",
    "Stage",
    "Statistics",
    "Sweeps",
    "System",
    "Tolerance",
    "Tridiagonal",
    "general",
    "recommended",
    "spectral_radius",
]
