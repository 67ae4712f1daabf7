"""The harness of the muster images."""

__version__ = "0.1.0"
