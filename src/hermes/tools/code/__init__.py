"""The programs around a Python script of `execute_code`, which can call tools.

    the tool  ──JSON lines──  runner  ──socket──  the script: `hermes_tools`, audit hook
    (here)                    (where the shell is)

They run where the shell is. They are sent as text, import nothing of Hermes, need only Python 3.8
and its standard library, and work on every backend whose `Shell` can start a program.

The script is judged by what it does, not by how it reads. An audit hook in its process reports
programs it starts, files it writes or deletes outside of the workspace and the temporary folder,
and reads of keys. Each effect waits for the answer of the agent, which asks the user for approval
where the rules demand it.

The hook is not a security boundary. Native code (`ctypes`, once allowed, or a compiled module),
code that manipulates its own interpreter, and Python programs that the script was allowed to start
bypass it. The sandbox and container backends are the boundary.
"""
