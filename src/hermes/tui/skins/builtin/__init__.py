"""The skins that come with Hermes, a module each: only the one that is worn is loaded."""
