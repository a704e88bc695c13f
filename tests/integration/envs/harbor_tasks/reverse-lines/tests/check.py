import json
import os
import sys
from pathlib import Path

os.setgid(65534)  # a container without capabilities refuses this
found = Path("reversed.txt")
text = found.read_text().strip() if found.exists() else ""
place = [str(Path.cwd()), os.environ["FROM_IMAGE"], os.environ["PLACE"], os.environ.get("LEFT", "")]
correct = text == os.environ["EXPECTED"] and place == ["/app", "yes", "container", ""]
sys.stdout.write(f"{text} {place}\n")
Path("/logs/verifier/reward.json").write_text(
    json.dumps({"reward": float(correct), "length": len(text)})
)
