"""`hermes notebook …`, while the provider is in use."""

from hermes_constants import display_hermes_home, get_hermes_home

from .pages import Pages


def register_cli(subparser):
    actions = subparser.add_subparsers(dest="action", required=True)
    show = actions.add_parser("show", help="print what is remembered")
    show.add_argument("--find", default="", metavar="WORDS", help="only what holds one of these")
    show.set_defaults(func=_show)
    clear = actions.add_parser("clear", help="forget everything")
    clear.set_defaults(func=_clear)


def _show(args):
    pages = Pages(get_hermes_home())
    lines = pages.find(args.find) if args.find else pages.all()
    for line in lines:
        print(line)
    print(f"{len(lines)} kept in {display_hermes_home()}/{pages.file.name}")


def _clear(args):
    Pages(get_hermes_home()).clear()
    print("forgotten")
