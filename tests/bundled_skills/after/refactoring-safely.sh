test "$(wc -l < .golden/before.txt)" -eq 28
grep -q 'ValueError: weight must be positive' .golden/before.txt
grep -q '^def shipping_cost' shipping.py
