"""What begins with `/`, in a terminal and in chats: one registry, and what the commands do.

registry    names, aliases, groups and help of every command
talk        what a command works with: the conversation it was given in
finding     from what was typed to what is to be done
running     does it, and tells what went wrong
session     the conversation itself: /new, /retry, /undo, /branch …
choosing    what is used for it: /model, /reasoning, /personality, /yolo …
looking     what there is to know: /help, /status, /usage …
"""
