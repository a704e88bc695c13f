# In a terminal the wrapper leads the session, and its end is the end of the terminal. It survives a
# Ctrl-C in order to report the exit code: ssh does not report which signal ended a program.
#include wrapper
stty sane cols 120 rows 40 2>/dev/null
trap : INT QUIT
"$@"
exit "$?"
