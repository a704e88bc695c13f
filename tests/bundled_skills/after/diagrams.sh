grep -q "paid -.->|\"no\"| user" flow.mmd
test -s flow.png
grep -q "<svg" flow-dot.svg
