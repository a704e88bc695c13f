"""A chat program that shows a status line and knows two more commands."""

import argparse
import sys

from cli import HermesCLI
from prompt_toolkit.layout import FormattedTextControl, Window


class MyCLI(HermesCLI):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.pinned = "nothing"

    def _get_extra_tui_widgets(self):
        return [Window(FormattedTextControl(self._status_line), height=1)]

    def _status_line(self):
        said = len(self.conversation_history)
        return [("class:my-status", f" {self.model} · {said} messages · pinned: {self.pinned} ")]

    def _register_extra_tui_keybindings(self, kb, *, input_area):
        @kb.add("f2")
        def _insert(event):
            input_area.buffer.insert_text("In one sentence: ")

    def _build_tui_layout_children(
        self,
        *,
        sudo_widget,
        secret_widget,
        approval_widget,
        clarify_widget,
        spinner_widget,
        spacer,
        status_bar,
        input_rule_top,
        image_bar,
        input_area,
        input_rule_bot,
        voice_status_bar,
        completions_menu,
    ):
        return [
            Window(char="=", height=1, style="class:my-rule"),
            sudo_widget,
            secret_widget,
            approval_widget,
            clarify_widget,
            spinner_widget,
            spacer,
            *self._get_extra_tui_widgets(),
            status_bar,
            input_rule_top,
            image_bar,
            input_area,
            input_rule_bot,
            voice_status_bar,
            completions_menu,
        ]

    def _build_tui_style_dict(self):
        return {
            **super()._build_tui_style_dict(),
            "my-status": "reverse",
            "my-rule": "ansicyan",
        }

    def process_command(self, cmd):
        name, _, rest = cmd.partition(" ")
        if name == "/pin":
            self.pinned = rest.strip() or "nothing"
            self._invalidate()
            return True
        if name == "/count":
            asked = [each for each in self.conversation_history if each["role"] == "user"]
            print(f"asked so far: {len(asked)}; an agent is here: {self.agent is not None}")
            return True
        return super().process_command(cmd)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--base-url")
    parser.add_argument("--toolsets")
    args = parser.parse_args()
    return MyCLI(model=args.model, base_url=args.base_url, toolsets=args.toolsets).run()


if __name__ == "__main__":
    sys.exit(main())
