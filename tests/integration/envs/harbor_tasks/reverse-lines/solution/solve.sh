#!/bin/bash
set -e
read -ra letters <letters.txt
echo "${letters[2]}$SEPARATOR${letters[1]}$SEPARATOR${letters[0]}" >reversed.txt
