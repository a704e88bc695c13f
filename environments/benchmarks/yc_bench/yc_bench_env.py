"""YC-Bench.

python environments/benchmarks/yc_bench/yc_bench_env.py evaluate --config FILE
"""

from hermes.compat.env_benchmarks import YCBenchEvalEnv

__all__ = ["YCBenchEvalEnv"]

if __name__ == "__main__":
    YCBenchEvalEnv.cli()
