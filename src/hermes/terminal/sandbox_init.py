"""The init program of the sandbox: it starts all other programs there.

Its source is passed to a bare Python, so it uses the standard library only. It receives messages
`{"start": N, "argv": […], "pty": …}` with the descriptors for the program, and `{"signal": N,
"number": …}`; it sends `{"ready": true}` and `{"ended": N, "code": …}`. When the socket closes it
ends, and with it the whole sandbox.
"""

import fcntl
import json
import os
import resource
import select
import signal
import socket
import sys
import termios

MAX_MESSAGE = 1_048_576  #: Maximum size of a message in bytes.


def main(descriptor: int, memory: int, processes: int) -> None:
    set_limit(resource.RLIMIT_AS, memory)
    set_limit(resource.RLIMIT_NPROC, processes)
    link = socket.socket(fileno=descriptor)
    link.set_inheritable(False)
    woken, waking = os.pipe()
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    send_message(link, {"ready": True})
    children: dict[int, int] = {}
    watched = select.poll()
    watched.register(link, select.POLLIN)
    watched.register(woken, select.POLLIN)
    while True:
        ready = {found for found, _ in watched.poll()}
        if woken in ready:
            os.read(woken, 4096)
        if descriptor in ready:
            message, descriptors, _, _ = socket.recv_fds(
                link, MAX_MESSAGE, 3, socket.MSG_CMSG_CLOEXEC
            )
            if not message:
                return
            handle_message(json.loads(message), descriptors, children)
        reap_children(link, children)


def set_limit(kind: int, most: int) -> None:
    if most:
        resource.setrlimit(kind, (most, most))


def send_message(link: socket.socket, message: dict[str, object]) -> None:
    link.send(json.dumps(message).encode())


def handle_message(
    message: dict[str, object], descriptors: list[int], children: dict[int, int]
) -> None:
    if "start" in message:
        words = message["argv"]
        argv = [str(word).encode("latin-1") for word in words] if isinstance(words, list) else []
        process = os.fork()
        if process == 0:
            exec_program(argv, descriptors, terminal=bool(message["pty"]))
        children[process] = int(str(message["start"]))
        for descriptor in descriptors:
            os.close(descriptor)
        return
    for process, number in children.items():
        if number == message["signal"]:
            os.killpg(process, int(str(message["number"])))


def exec_program(argv: list[bytes], descriptors: list[int], *, terminal: bool) -> None:
    """In the child: start a session, set up the streams and execute the program."""
    try:
        os.setsid()
        for number, descriptor in enumerate((descriptors * 3)[:3]):
            os.dup2(descriptor, number)
        if terminal:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for name in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
            signal.signal(name, signal.SIG_DFL)
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, os.fsencode(f"{os.fsdecode(argv[0])}: {error.strerror}\n"))
    finally:
        os._exit(127)


def reap_children(link: socket.socket, children: dict[int, int]) -> None:
    while children:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            return
        code = os.waitstatus_to_exitcode(status)
        number = children.pop(process)
        send_message(link, {"ended": number, "code": code if code >= 0 else 128 - code})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
