# needs: git
printf 'Dear Ann,\n\nwe really met in order to settle the the price.\nThe offer was written by Bob.\n' > letter.md
