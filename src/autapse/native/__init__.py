"""Compiled kernels: C++ that knows no framework, loaded with ctypes, offered to PyTorch as `torch.library` ops."""

from autapse.native.library import info

__all__ = ["info"]
