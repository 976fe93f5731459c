"""Compiled kernels: C++ that depends on no framework, loaded with ctypes, as `torch.library` ops for PyTorch."""

from autapse.native.library import info

__all__ = ["info"]
