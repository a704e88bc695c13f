"""Maintenance of an installation: doctor, backups, updates, logs, reports and transcripts.

The commands of `hermes.cli` show what these modules find and do. Import the modules directly:
most commands need one of them, and loading all would slow each of them down.
"""
