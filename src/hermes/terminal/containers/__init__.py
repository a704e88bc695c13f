"""Containers of Docker, Podman, Apptainer and Singularity."""
