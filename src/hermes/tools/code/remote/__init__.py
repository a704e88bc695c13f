"""What runs beside the script. Sent as text: nothing here imports anything of ours."""
