"""execute_code: Python scripts that call tools, so that many calls cost one turn.

    the tool  ──JSON lines──  runner  ──socket──  the script: `hermes_tools`, audit hook
    (here)                    (where the shell is)

`remote` holds what runs on the other side. It is sent over as text, needs Python 3.8 and its
standard library only, and works on every backend whose `Shell` can start a program.

The script is judged by what it does, not by how it reads. An audit hook in its process reports
programs it starts, files it writes or deletes outside of the workspace and the temporary folder,
and reads of keys; each is held up until we answer, and what a person must consent to is asked.

This keeps an honest script honest; it is not a wall. Native code (`ctypes`, once allowed, or a
compiled module), a Python that digs in its own interpreter, and Python programs the script was
allowed to start are outside of it. The sandbox and container backends are the boundary.
"""
