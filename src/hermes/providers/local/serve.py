"""Child process of the embedded model: llama.cpp's HTTP server, on loopback only.

Run as `python -P -m hermes.providers.local.serve`. The first line on standard input is a
`ServeOrder`; the response is one `ServeAnswer` line on standard output. The process exits when
standard input closes, so it cannot outlive its parent. Secrets are passed in the order, never on
the command line. This module must not import the rest of Hermes.
"""

import os
import sys
import threading
from io import RawIOBase
from typing import Any

import msgspec


class ServeOrder(msgspec.Struct, frozen=True):
    model: str  #: Path of the GGUF file.
    alias: str
    api_key: str  #: Required in every request; new for each process.
    context: int
    threads: int
    slots: str  #: Folder of saved prompt prefixes, with a trailing slash.
    verbosity: int = 1


class ServeAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Exactly one of the two is set."""

    address: str = ""
    error: str = ""


def main() -> int:
    answers = _keep_stdout_clean()
    orders = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 - a descriptor
    order = msgspec.json.decode(orders.readline(), type=ServeOrder)
    threading.Thread(target=_end_with_parent, args=[orders], daemon=True).start()
    import xllamacpp  # an extra: the parent imports this module where it is not installed

    try:
        server = xllamacpp.Server(server_parameters(order))
    except (RuntimeError, ValueError, MemoryError) as error:
        _answer(answers, ServeAnswer(error=str(error) or type(error).__name__))
        return 1
    _answer(answers, ServeAnswer(address=server.listening_address))
    threading.Event().wait()
    return 0


def server_parameters(order: ServeOrder) -> Any:
    """Return llama.cpp's parameters for one slot, without logging and web page."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = order.model
    params.model_alias = {order.alias}
    params.n_ctx = order.context
    params.n_parallel = 1
    params.cpuparams.n_threads = order.threads
    params.cpuparams_batch.n_threads = order.threads
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [order.api_key]
    params.slot_save_path = order.slots
    params.cors_origins = "null"
    params.ui = False
    params.warmup = False
    params.fit_params = False
    params.verbosity = order.verbosity
    return params


def _keep_stdout_clean() -> int:
    """Return a private copy of standard output; other prints go to standard error."""
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def _answer(descriptor: int, answer: ServeAnswer) -> None:
    os.write(descriptor, msgspec.json.encode(answer) + b"\n")
    os.close(descriptor)


def _end_with_parent(orders: RawIOBase) -> None:
    """Exit when standard input closes: nothing more is sent on it, so the parent is gone."""
    orders.read()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
