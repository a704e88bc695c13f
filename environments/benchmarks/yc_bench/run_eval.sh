#!/bin/sh
# Evaluate with YC-Bench. Arguments are options of the environment:
#   run_eval.sh --openai.model_name MODEL --env.presets '["fast_test"]' --env.seeds '[1]'
set -eu
folder=$(cd -- "$(dirname -- "$0")" && pwd)
python=$folder/../../../.venv/bin/python
[ -x "$python" ] || python=python3
exec "$python" "$folder/yc_bench_env.py" evaluate --config "$folder/default.yaml" "$@"
