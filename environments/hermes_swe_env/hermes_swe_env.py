"""Programming tasks with tests, from a file in the style of HumanEvalPack.

python environments/hermes_swe_env/hermes_swe_env.py evaluate --env.dataset_name FILE
"""

from hermes.compat.env_benchmarks import HermesSweEnv

__all__ = ["HermesSweEnv"]

if __name__ == "__main__":
    HermesSweEnv.cli()
