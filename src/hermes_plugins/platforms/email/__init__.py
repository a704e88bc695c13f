"""The email platform, over IMAP and SMTP."""
