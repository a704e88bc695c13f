"""Asks an agent what each file is for, and prints a table."""

import sys

from hermes_state import SessionDB
from run_agent import AIAgent


def main(files):
    if not files:
        sys.exit("usage: describe.py FILE …")
    agent = AIAgent(enabled_toolsets=["file"], max_iterations=10, quiet_mode=True)
    try:
        for name in files:
            result = agent.run_conversation(f"In at most ten words: what is the file {name} for?")
            if not result["completed"]:
                sys.exit(f"{name}: {result['error'] or result['exit_reason']}")
            print(f"{name:<20} {result['final_response']}")
        session = agent.session_id
    finally:
        agent.close()
    db = SessionDB()
    try:
        said = db.get_messages_as_conversation(session)
    finally:
        db.close()
    print(f"{len(said)} messages, {result['model']}, session {session}")


if __name__ == "__main__":
    main(sys.argv[1:])
