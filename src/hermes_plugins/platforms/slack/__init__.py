"""The Slack platform, through slack_sdk and Socket Mode."""
