compare() { python3 "$HERMES_SKILL_DIR/scripts/compare_evals.py" "$@"; }
compare base.json new.json --samples base.jsonl new.jsonl > found && exit 1
grep -q 'tea acc,none: 0.7500 -> 0.6000  WORSE (-4.6 standard errors)' found
grep -q 'cups exact_match,strict-match: 0.5000 -> 0.5000  within chance' found
grep -q 'not comparable: few-shot of cups is 5 and 3' found
grep -q '400 examples: 0 better, 60 worse, p = .*: WORSE' found
compare base.json base.json
compare base.json base.jsonl 2> found && exit 1
grep -q 'is no JSON' found
