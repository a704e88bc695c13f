# needs: git
mkdir bin
cat > bin/claude <<'PY'
#!/usr/bin/env python3
"""Answers as `claude -p --output-format json` does, after the change that the task asks for."""
import json, pathlib, sys

arguments = sys.argv[1:]
at = arguments.index("--")
assert arguments[0] == "-p" and "multiply price by quantity" in arguments[at + 1], arguments
options = dict(zip(arguments[1:at:2], arguments[2:at:2]))
assert options == {
    "--output-format": "json", "--permission-mode": "acceptEdits", "--max-budget-usd": "2",
    "--allowedTools": "Bash(python3 -m unittest *)",
}, options
assert sys.stdin.read() == ""
cart = pathlib.Path("cart.py")
cart.write_text(cart.read_text().replace("p for p, _ in", "p * q for p, q in"))
print(json.dumps({"type": "result", "is_error": False, "result": "Quantities count.", "session_id": "s1", "total_cost_usd": 0.42}))
PY
chmod +x bin/claude
export PATH="$PWD/bin:$PATH"
git init -q --initial-branch=main project
WORK=$PWD/project
(
    cd project
    printf 'def total(rows):\n    return sum(p for p, _ in rows)\n' > cart.py
    cat > test_cart.py <<'PY'
import unittest

from cart import total


class Cart(unittest.TestCase):
    def test_quantities_count(self):
        self.assertEqual(total([(2, 3), (5, 0)]), 6)
PY
    git add -A
    git commit -q -m cart
)
