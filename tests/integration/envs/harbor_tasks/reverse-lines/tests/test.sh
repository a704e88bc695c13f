#!/bin/bash
# The folder and the variables are those of the container, not those that the agent left.
set -u
cd "$PWD"
python3 /tests/check.py
