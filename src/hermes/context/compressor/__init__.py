"""The built-in context engine: old messages become one message of notes."""

from hermes.context.compressor.engine import ContextCompressor
from hermes.context.compressor.options import CompressionOptions

__all__ = ["CompressionOptions", "ContextCompressor"]
