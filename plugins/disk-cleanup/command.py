"""What /disk-cleanup says."""

USAGE = "usage: /disk-cleanup [remove [N]]"


def answer(tracker, raw_args):
    words = raw_args.split()
    made = tracker.made()
    if not words:
        return _listing(made)
    if words[0] != "remove" or len(words) > 2:
        return USAGE
    if len(words) == 1:
        # The longest path first, so that a folder is empty when its turn comes.
        chosen = sorted((path for path, _ in made), key=lambda path: -len(path.parts))
    elif words[1].isdecimal() and 1 <= int(words[1]) <= len(made):
        chosen = [made[int(words[1]) - 1][0]]
    else:
        return f"there is no number {words[1]} in the list\n{_listing(made)}"
    return "\n".join(_removed(tracker, path) for path in chosen) or _listing(made)


def _listing(made):
    if not made:
        return "the agent made no temporary files that are still there"
    lines = [f"{number:>3}  {size:>10,} B  {path}" for number, (path, size) in enumerate(made, 1)]
    return "\n".join([*lines, "/disk-cleanup remove deletes all of them, remove N one"])


def _removed(tracker, path):
    try:
        tracker.remove(path)
    except OSError as error:
        return f"kept {path}: {error.strerror or error}"
    return f"removed {path}"
