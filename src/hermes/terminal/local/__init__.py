"""The local backend: shell, processes and files of this machine."""
