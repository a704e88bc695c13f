"""The terminal backend `daytona`: commands run in the cloud of Daytona."""
