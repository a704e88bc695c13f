# Results and samples in the form of lm-eval 0.4.
python3 - <<'PY'
import json

for name, right in (("base", 300), ("new", 240)):
    rate = right / 400
    error = (rate * (1 - rate) / 399) ** 0.5
    values = {"alias": "tea", "acc,none": rate, "acc_stderr,none": error}
    steady = {"alias": "cups", "exact_match,strict-match": 0.5, "exact_match_stderr,strict-match": 0.02}
    seed = {"random_seed": 0, "limit": None}
    shots = {"tea": 0, "cups": 5 if name == "base" else 3}
    results = {"results": {"tea": values, "cups": steady}, "config": seed, "n-shot": shots}
    json.dump(results, open(f"{name}.json", "w"))
    with open(f"{name}.jsonl", "w") as out:
        for number in range(400):
            out.write(json.dumps({"doc_id": number, "filter": "none", "acc": float(number < right)}) + "\n")
PY
