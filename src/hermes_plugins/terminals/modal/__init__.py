"""The terminal backend `modal`: commands run in the cloud of Modal."""
