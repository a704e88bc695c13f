python3 -c "import json; assert len(json.load(open(\"seen.json\"))) == 2"
