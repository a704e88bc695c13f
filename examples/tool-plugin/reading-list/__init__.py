"""A plugin that keeps a list of books."""

import json

from hermes_constants import get_hermes_home

from .books import Books

TOOLSET = "reading_list"
ADD = {
    "description": "Put a book on the user's reading list.",
    "parameters": {
        "type": "object",
        "properties": {"title": {"type": "string"}, "author": {"type": "string"}},
        "required": ["title"],
    },
}
LIST = {
    "description": "Show the user's reading list.",
    "parameters": {"type": "object", "properties": {}},
}


def shelf():
    """The list of the profile in use."""
    return Books(get_hermes_home() / "reading-list.json")


def add_book(args, **kwargs):
    shelf().add(args["title"], args.get("author", ""))
    return json.dumps({"added": args["title"], "waiting": len(shelf().all())})


def list_books(args, **kwargs):
    return json.dumps({"books": shelf().all()})


def protect(tool_name, args, task_id):
    """Nothing but the tool itself touches the file."""
    if "reading-list.json" in json.dumps(args):
        return {"action": "block", "message": "the reading list is changed with book_add only"}
    return None


def mention(user_message, **kwargs):
    waiting = len(shelf().all())
    if waiting and "read" in user_message.lower():
        return {"context": f"{waiting} books are on the reading list."}
    return None


def count(completed, **kwargs):
    if completed:
        shelf().count_turn()


def register(ctx):
    ctx.register_tool("book_add", TOOLSET, ADD, add_book)
    ctx.register_tool("book_list", TOOLSET, LIST, list_books, check_fn=lambda: bool(shelf().all()))
    ctx.register_hook("pre_tool_call", protect)
    ctx.register_hook("pre_llm_call", mention)
    ctx.register_hook("on_session_end", count)

    def books_command(raw_args):
        books = shelf().all()
        if raw_args == "next" and books:
            ctx.inject_message(f"Tell me why I should read {books[0]['title']}.")
            return None
        return "\n".join(str(each["title"]) for each in books) or "the list is empty"

    ctx.register_command("books", books_command, description="show the reading list")

    def set_up(parser):
        parser.add_argument("--json", action="store_true", help="as JSON")

    def show(args):
        books = shelf().all()
        print(json.dumps(books) if args.json else "\n".join(each["title"] for each in books))

    ctx.register_cli_command("books", "show the reading list", set_up, show)
    ctx.register_skill("book-notes", "skills/book-notes")
