# needs: git
git init -q --initial-branch=main project
WORK=$PWD/project
(
    cd project
    cat > shipping.py <<'PY'
RATES = {"DE": 4, "FR": 7}


def cost(weight, country):
    if weight <= 0:
        raise ValueError("weight must be positive")
    return RATES.get(country, 15) * (1 if weight < 5 else 2)
PY
    cat > test_shipping.py <<'PY'
import unittest

from shipping import cost


class Shipping(unittest.TestCase):
    def test_heavy_parcels_cost_double(self):
        self.assertEqual(cost(5, "DE"), 8)
PY
    git add -A
    git commit -q -m "shipping"
)
