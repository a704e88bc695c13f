"""Choosing a provider and one of its models from lists."""

from collections.abc import Sequence

from hermes.app.model_choice import Wanted
from hermes.app.providers import Providers
from hermes.cli.context import Cli
from hermes.providers import CUSTOM, ENDPOINTS, ModelChoice, Target
from hermes.util.text import many

SHOWN = 20


class Wizard:
    def __init__(self, cli: Cli, providers: Providers) -> None:
        self._cli, self._providers = cli, providers

    async def choose(self) -> str:
        """`provider:model`, or empty when the user left."""
        offers = self._offers()
        for number, (name, why) in enumerate(offers, start=1):
            self._cli.say(f"{number:>3}  {name:<18} {why}")
        self._cli.note("another provider: hermes auth add PROVIDER")
        provider = self._pick("provider (number or name, empty to leave): ", [n for n, _ in offers])
        if not provider:
            return ""
        model = await self.model_of(provider)
        return f"{provider}:{model}" if model else ""

    async def model_of(self, provider: str) -> str:
        """One of the provider's models, or empty when none was chosen."""
        return await self.model_at(self._providers.lister.target(provider, None))

    async def model_at(self, target: Target) -> str:
        """One of those at an address, or empty when none was chosen."""
        found = await self._providers.lister.models(target, Wanted())
        if found.note:
            self._cli.note(found.note)
        return self._pick_model([one.facts.id for one in found.models])

    def _offers(self) -> list[tuple[str, str]]:
        """Providers that can be used now, and why."""
        found = [
            (c.endpoint.id, c.reason) for c in self._providers.resolver.candidates(ModelChoice())
        ]
        own = [(f"{CUSTOM}:{name}", "custom_providers") for name in self._providers.custom_names()]
        here = [(e.id, e.label) for e in ENDPOINTS if not e.needs_key and e.id != CUSTOM]
        return [*found, *own, *here]

    def _pick_model(self, models: Sequence[str]) -> str:
        """A number, a name, or words that narrow the list down."""
        shown = list(models)
        while True:
            for number, name in enumerate(shown[:SHOWN], start=1):
                self._cli.say(f"{number:>3}  {name}")
            if len(shown) > SHOWN:
                self._cli.say(f"     … and {many(len(shown) - SHOWN, 'more model')}")
            said = self._cli.ask("model (number, name, or words to look for): ").strip()
            if said.isdigit() and 1 <= int(said) <= min(len(shown), SHOWN):
                return shown[int(said) - 1]
            if not said or said in models or not models:
                return said
            narrowed = [name for name in models if all(w in name for w in said.lower().split())]
            if not narrowed:
                self._cli.say(f"no model of the list has {said!r} in its name")
                if self._cli.ask(f"use {said} all the same? [y/N] ").lower() in ("y", "yes"):
                    return said
            shown = narrowed or list(models)

    def _pick(self, prompt: str, names: Sequence[str]) -> str:
        while True:
            said = self._cli.ask(prompt).strip()
            if said.isdigit() and 1 <= int(said) <= len(names):
                return names[int(said) - 1]
            if not said or said in names:
                return said
            self._cli.say(f"{said!r} is not in the list")
