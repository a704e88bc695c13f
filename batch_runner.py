"""Generate trajectories from a file of prompts; the same as `hermes batch run`.

python batch_runner.py --dataset_file=prompts.jsonl --batch_size=10 --run_name=my_run
"""

import sys

from hermes.compat.batch import BatchRunner, run_batch_script

__all__ = ["BatchRunner"]

if __name__ == "__main__":
    sys.exit(run_batch_script())
