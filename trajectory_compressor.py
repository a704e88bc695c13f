"""Shorten saved trajectories to a number of tokens; the same as `hermes batch compress`.

python trajectory_compressor.py --input=data/my_run --target_max_tokens=16000
"""

import sys

from hermes.compat.batch import ScriptCompressor as TrajectoryCompressor
from hermes.compat.batch import run_compressor_script

__all__ = ["TrajectoryCompressor"]

if __name__ == "__main__":
    sys.exit(run_compressor_script())
