#!/bin/sh
echo pytest is not installed
exit 3
