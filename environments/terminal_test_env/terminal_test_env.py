"""Small tasks in the terminal; they need nothing but a model.

python environments/terminal_test_env/terminal_test_env.py process --openai.base_url URL
"""

from hermes.compat.env_benchmarks import TerminalTestEnv

__all__ = ["TerminalTestEnv"]

if __name__ == "__main__":
    TerminalTestEnv.cli()
