"""Finding what is wrong with an installation, and mending what can be mended safely."""
