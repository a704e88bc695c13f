"""Terminal-Bench 2.

python environments/benchmarks/terminalbench_2/terminalbench2_env.py evaluate --config FILE
"""

from hermes.compat.env_benchmarks import TerminalBench2EvalEnv

__all__ = ["TerminalBench2EvalEnv"]

if __name__ == "__main__":
    TerminalBench2EvalEnv.cli()
