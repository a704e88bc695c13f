"""OpenThoughts-TBLite.

python environments/benchmarks/tblite/tblite_env.py evaluate --config FILE
"""

from hermes.compat.env_benchmarks import TBLiteEvalEnv

__all__ = ["TBLiteEvalEnv"]

if __name__ == "__main__":
    TBLiteEvalEnv.cli()
